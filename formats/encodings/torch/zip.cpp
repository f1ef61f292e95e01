// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/zip.hpp"

#include "formats/encodings/torch/zip_records.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace tpx::torch {
namespace {

using namespace zip;

struct Directory {
    std::uint64_t position = 0;
    std::uint64_t size = 0;
    std::uint64_t entries = 0;
    std::uint64_t end = 0;  ///< where the end record, which describes the directory, starts
};

/// The position of the end record: the last one whose comment reaches to the end of the range.
std::uint64_t find_end(const RangeReader& reader) {
    const std::uint64_t length = reader.range().length;
    const std::uint64_t most = std::min<std::uint64_t>(length, end_size + 0xffff);
    // There is usually no comment; the longer search finds the record of an archive that has one.
    for (const std::uint64_t searched : {std::min<std::uint64_t>(length, end_size), most}) {
        const std::string tail = reader.read(length - searched, searched);
        for (std::uint64_t left = end_size; left <= searched; ++left) {
            const std::string_view record = std::string_view{tail}.substr(searched - left);
            if (field(record, 0, 4) == end_signature && field(record, 20, 2) == left - end_size) return length - left;
        }
    }
    throw failure("no end of a zip directory: not a zip archive, or truncated ({} bytes)", length);
}

/// Reads the zip64 end record if there is one, otherwise the ordinary one.
Directory find_directory(const RangeReader& reader) {
    const std::uint64_t end = find_end(reader);
    const std::string record = reader.read(end, end_size);
    if (end >= locator_size) {
        const std::string locator = reader.read(end - locator_size, locator_size);
        if (field(locator, 0, 4) == locator_signature) {
            const std::uint64_t end64 = field(locator, 8, 8);
            const std::string record64 = reader.read(end64, end64_size);
            if (field(record64, 0, 4) != end64_signature) throw failure("no zip64 end record at byte {}", end64);
            return {field(record64, 48, 8), field(record64, 40, 8), field(record64, 32, 8), end64};
        }
    }
    return {field(record, 16, 4), field(record, 12, 4), field(record, 10, 2), end};
}

/// `value`, or the next zip64 field if `value` marks a number that does not fit in the ordinary field.
std::uint64_t widen(std::uint64_t value, std::string_view& extra64) {
    if (value != 0xffffffff) return value;
    if (extra64.size() < 8) throw failure("a zip64 field is missing");
    const std::uint64_t wide = field(extra64, 0, 8);
    extra64.remove_prefix(8);
    return wide;
}

std::string_view zip64_field(std::string_view extra) {
    while (extra.size() >= 4) {
        const std::uint64_t size = field(extra, 2, 2);
        if (size > extra.size() - 4) break;
        if (field(extra, 0, 2) == 1) return extra.substr(4, size);
        extra.remove_prefix(4 + size);
    }
    return {};
}

}  // namespace

Zip::Zip(FileRange range, Root root) : reader_{std::move(range)}, kind_{root} {
    const Directory directory = find_directory(reader_);
    directory_ = directory.position;
    if (directory.position > directory.end || directory.size > directory.end - directory.position)
        throw failure("the directory of {} bytes at byte {} is not all before byte {}", directory.size,
                      directory.position, directory.end);
    const std::string bytes = reader_.peek(directory.position, directory.size);
    std::string_view left = bytes;
    for (std::uint64_t i = 0; i < directory.entries; ++i) {
        if (left.size() < entry_size || field(left, 0, 4) != entry_signature)
            throw failure("the directory ends after {} of {} members", i, directory.entries);
        const std::uint64_t name = field(left, 28, 2), extra = field(left, 30, 2), comment = field(left, 32, 2);
        if (name + extra + comment > left.size() - entry_size) throw failure("member {} has no room for its name", i);
        const std::uint64_t position = directory.position + bytes.size() - left.size();
        // All but the checksum of the content, which read() examines if it matters.
        reader_.examine(position, crc_at);
        reader_.examine(position + crc_at + crc_size, entry_size + name + extra + comment - crc_at - crc_size);
        add_entry(position, left.substr(0, entry_size), left.substr(entry_size, name),
                  left.substr(entry_size + name, extra));
        left.remove_prefix(entry_size + name + extra + comment);
    }
    check_layout();
}

void Zip::add_entry(std::uint64_t position, std::string_view header, std::string_view name, std::string_view extra) {
    const std::uint64_t method = field(header, 10, 2);
    if ((field(header, 8, 2) & 1) != 0) throw failure("member '{}' is encrypted", name);
    if (method != 0 && method != 8) throw failure("member '{}' has compression method {}", name, method);
    const bool whole = kind_ == Root::none;
    const auto slash = whole ? std::string_view::npos : name.find('/');
    if (whole && name.ends_with('/')) return;  // a folder
    if (!whole && slash == name.npos) throw failure("member '{}' is in no folder", name);
    if (!whole && entries_.empty() && root_.empty()) root_ = name.substr(0, slash);
    if (!whole && name.substr(0, slash) != root_)
        throw failure("two root folders, '{}' and '{}'", root_, name.substr(0, slash));
    if (!whole && slash + 1 == name.size()) return;  // the folder itself

    ZipEntry entry;
    entry.name = whole ? name : name.substr(slash + 1);
    std::string_view extra64 = zip64_field(extra);
    entry.size = widen(field(header, 24, 4), extra64);
    entry.stored_size = widen(field(header, 20, 4), extra64);
    entry.header = widen(field(header, 42, 4), extra64);
    entry.record = position;
    entry.crc = static_cast<std::uint32_t>(field(header, crc_at, crc_size));
    entry.deflated = method == 8;
    if (!entry.deflated && entry.size != entry.stored_size)
        throw failure("member '{}' has {} bytes, and {} stored", name, entry.size, entry.stored_size);
    entries_.push_back(std::move(entry));
}

/// Throws Error if members overlap, appear twice, or are not before the directory; sorts them by name.
void Zip::check_layout() {
    std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) { return a.header < b.header; });
    std::uint64_t free = 0;  // bytes before it belong to members
    for (const ZipEntry& entry : entries_) {
        const std::uint64_t folder = kind_ == Root::none ? 0 : root_.size() + 1;
        const std::uint64_t local = local_size + folder + entry.name.size();
        if (entry.header < free) throw failure("member '{}' overlaps another", entry.name);
        if (entry.header > directory_ || local > directory_ - entry.header ||
            entry.stored_size > directory_ - entry.header - local)
            throw failure("member '{}' of {} bytes at byte {} is not all before the directory at byte {}", entry.name,
                          entry.stored_size, entry.header, directory_);
        free = entry.header + local + entry.stored_size;
    }
    std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(entries_.begin(), entries_.end(),
                                          [](const auto& a, const auto& b) { return a.name == b.name; });
    if (twice != entries_.end()) throw failure("member '{}' appears twice", twice->name);
}

const ZipEntry* Zip::find(std::string_view name) const {
    const auto place = std::lower_bound(entries_.begin(), entries_.end(), name,
                                        [](const ZipEntry& entry, std::string_view key) { return entry.name < key; });
    return place != entries_.end() && place->name == name ? &*place : nullptr;
}

std::uint64_t Zip::payload(const ZipEntry& entry) const {
    const std::string local = reader_.read(entry.header, local_size);
    const std::string name = kind_ == Root::none ? entry.name : fmt::format("{}/{}", root_, entry.name);
    if (field(local, 0, 4) != local_signature || field(local, 26, 2) != name.size() ||
        reader_.read(entry.header + local_size, name.size()) != name)
        throw failure("no member '{}' at byte {}", entry.name, entry.header);
    const std::uint64_t start = entry.header + local_size + field(local, 26, 2) + field(local, 28, 2);
    if (start > directory_ || entry.stored_size > directory_ - start)
        throw failure("member '{}' of {} bytes at byte {} is not all before the directory at byte {}", entry.name,
                      entry.stored_size, start, directory_);
    return start;
}

}  // namespace tpx::torch
