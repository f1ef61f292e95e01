// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/zip_writer.hpp"

#include "formats/encodings/torch/zip_records.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <utility>

namespace tpx::torch {
namespace {

using namespace zip;

constexpr std::uint64_t saturated = 0xffffffff;  // marks a number that is in the zip64 field
constexpr std::uint64_t plain_version = 20;
constexpr std::uint64_t zip64_version = 45;

std::uint64_t narrow(std::uint64_t value) { return std::min(value, saturated); }

}  // namespace

/// Adds the local header, with torch's padding field ("FB", then Zs) before the content if alignment needs it.
void ZipWriter::add_header(const Member& member, std::uint64_t alignment) {
    const bool wide = member.size >= saturated;
    std::string extra;
    if (wide) {
        put(extra, 1, 2);
        put(extra, 16, 2);
        put(extra, member.size, 8);
        put(extra, member.size, 8);
    }
    std::uint64_t content = member.header + local_size + member.name.size() + extra.size();
    if (content % alignment != 0) {
        constexpr std::uint64_t field_header = 4;
        content += field_header;
        const std::uint64_t padding = (alignment - content % alignment) % alignment;
        extra += "FB";
        put(extra, padding, 2);
        extra.append(padding, 'Z');
    }
    std::string& record = out();
    put(record, local_signature, 4);
    put(record, wide ? zip64_version : plain_version, 2);
    put(record, 0, 8);  // flags, method, time, date
    put(record, member.crc, 4);
    put(record, narrow(member.size), 4);
    put(record, narrow(member.size), 4);
    put(record, member.name.size(), 2);
    put(record, extra.size(), 2);
    record += member.name;
    record += extra;
}

void ZipWriter::add(std::string_view name, std::string_view content, std::uint64_t alignment) {
    const auto crc = crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(content.data()), content.size());
    members_.push_back({"archive/" + std::string{name}, position(), content.size(), crc, 0});
    add_header(members_.back(), alignment);
    out() += content;
}

void ZipWriter::add_hole(std::string_view name, std::uint64_t size, std::uint64_t alignment) {
    constexpr std::uint64_t crc_in_header = 14;
    members_.push_back({"archive/" + std::string{name}, position(), size, 0, holes_.size() + 1});
    const std::uint64_t crc = position() + crc_in_header;
    add_header(members_.back(), alignment);
    holes_.push_back({position(), size, {crc, 0}});
    run_begin_ = position() + size;
    runs_.emplace_back();
}

void ZipWriter::add_directory_entry(const Member& member) {
    constexpr std::uint64_t crc_in_entry = 16;
    if (member.hole > 0) holes_[member.hole - 1].crcs[1] = position() + crc_in_entry;
    std::string extra;
    for (const std::uint64_t number : {member.size, member.size, member.header})
        if (number >= saturated) put(extra, number, 8);
    const std::uint64_t version = extra.empty() ? plain_version : zip64_version;
    std::string& record = out();
    put(record, entry_signature, 4);
    put(record, version, 2);
    put(record, version, 2);
    put(record, 0, 8);  // flags, method, time, date
    put(record, member.crc, 4);
    put(record, narrow(member.size), 4);
    put(record, narrow(member.size), 4);
    put(record, member.name.size(), 2);
    put(record, extra.empty() ? 0 : extra.size() + 4, 2);
    put(record, 0, 2);  // comment
    put(record, 0, 8);  // disk, attributes
    put(record, narrow(member.header), 4);
    record += member.name;
    if (extra.empty()) return;
    put(record, 1, 2);
    put(record, extra.size(), 2);
    record += extra;
}

void ZipWriter::add_end64(std::uint64_t directory, std::uint64_t size) {
    constexpr std::uint64_t not_counted = 12;  // signature and size of the record itself
    const std::uint64_t end64 = position();
    std::string& record = out();
    put(record, end64_signature, 4);
    put(record, end64_size - not_counted, 8);
    put(record, zip64_version, 2);
    put(record, zip64_version, 2);
    put(record, 0, 8);  // disks
    put(record, members_.size(), 8);
    put(record, members_.size(), 8);
    put(record, size, 8);
    put(record, directory, 8);
    put(record, locator_signature, 4);
    put(record, 0, 4);
    put(record, end64, 8);
    put(record, 1, 4);
}

void ZipWriter::finish() {
    constexpr std::uint64_t most_members = 0xffff;
    const std::uint64_t directory = position();
    for (const Member& member : members_) add_directory_entry(member);
    const std::uint64_t size = position() - directory;
    if (directory >= saturated || size >= saturated || members_.size() >= most_members) add_end64(directory, size);
    std::string& record = out();
    put(record, end_signature, 4);
    put(record, 0, 4);  // disks
    put(record, std::min<std::uint64_t>(members_.size(), most_members), 2);
    put(record, std::min<std::uint64_t>(members_.size(), most_members), 2);
    put(record, narrow(size), 4);
    put(record, narrow(directory), 4);
    put(record, 0, 2);
}

}  // namespace tpx::torch
