// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/zip.hpp"
#include "lib/core/error.hpp"

#include <cstring>
#include <utility>

namespace tpx::torch {
namespace {

std::string read_part(const FileRange& range, std::uint64_t position, std::uint64_t size) {
    std::string bytes(size, '\0');
    read_at(*range.fd, range.offset + position, std::as_writable_bytes(std::span{bytes}), range.path);
    return bytes;
}

}  // namespace

RangeEnds read_ends(const FileRange& range) {
    RangeEnds ends;
    ends.head = read_part(range, 0, range.is_short() ? range.length : range.ends);
    if (!range.is_short()) ends.tail = read_part(range, range.length - range.ends, range.ends);
    return ends;
}

RangeReader::RangeReader(FileRange range)
    : range_{std::move(range)}, ends_{range_.known != nullptr ? *range_.known : read_ends(range_)} {}

void RangeReader::fetch(std::uint64_t position, std::span<std::byte> into) const {
    if (position > range_.length || into.size() > range_.length - position)
        throw failure("bytes {} to {} are expected, there are {}", position, position + into.size(), range_.length);
    if (into.empty()) return;
    const auto& [head, tail] = ends_;
    if (position + into.size() <= head.size()) {
        std::memcpy(into.data(), head.data() + position, into.size());
    } else if (position >= range_.length - tail.size()) {
        std::memcpy(into.data(), tail.data() + (position - (range_.length - tail.size())), into.size());
    } else {
        if (range_.examined != nullptr) range_.examined->at_ends = false;
        read_at(*range_.fd, range_.offset + position, into, range_.path);
    }
}

void RangeReader::read(std::uint64_t position, std::span<std::byte> into) const {
    fetch(position, into);
    examine(position, into.size());
}

std::string RangeReader::read(std::uint64_t position, std::uint64_t size) const {
    std::string bytes = peek(position, size);
    examine(position, size);
    return bytes;
}

std::string RangeReader::peek(std::uint64_t position, std::uint64_t size) const {
    if (size > range_.length) throw failure("{} bytes are expected, there are {}", size, range_.length);
    std::string bytes(size, '\0');
    fetch(position, std::as_writable_bytes(std::span{bytes}));
    return bytes;
}

void RangeReader::examine(std::uint64_t position, std::uint64_t size) const {
    if (range_.examined != nullptr && size > 0) range_.examined->parts.emplace_back(position, position + size);
}

}  // namespace tpx::torch
