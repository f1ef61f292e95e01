// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/zip.hpp"
#include "lib/core/error.hpp"

#include <cstring>
#include <utility>

namespace tpx::torch {
namespace {

// An archive of one tensor has less than 1 KiB before its payload and less than 1 KiB behind it.
constexpr std::uint64_t ahead = 1024;
constexpr std::uint64_t read_whole = 4 * ahead;

std::string read_part(const FileRange& range, std::uint64_t position, std::uint64_t size) {
    std::string bytes(size, '\0');
    read_at(*range.fd, range.offset + position, std::as_writable_bytes(std::span{bytes}), range.path);
    return bytes;
}

}  // namespace

RangeReader::RangeReader(FileRange range) : range_{std::move(range)} {
    head_ = read_part(range_, 0, range_.length <= read_whole ? range_.length : ahead);
    if (range_.length > read_whole) tail_ = read_part(range_, range_.length - ahead, ahead);
}

void RangeReader::read(std::uint64_t position, std::span<std::byte> into) const {
    if (position > range_.length || into.size() > range_.length - position)
        throw failure("bytes {} to {} are expected, there are {}", position, position + into.size(), range_.length);
    if (into.empty()) return;
    const std::uint64_t tail = range_.length - tail_.size();
    if (position + into.size() <= head_.size())
        std::memcpy(into.data(), head_.data() + position, into.size());
    else if (position >= tail)
        std::memcpy(into.data(), tail_.data() + (position - tail), into.size());
    else
        read_at(*range_.fd, range_.offset + position, into, range_.path);
}

std::string RangeReader::read(std::uint64_t position, std::uint64_t size) const {
    if (size > range_.length) throw failure("{} bytes are expected, there are {}", size, range_.length);
    std::string bytes(size, '\0');
    read(position, std::as_writable_bytes(std::span{bytes}));
    return bytes;
}

}  // namespace tpx::torch
