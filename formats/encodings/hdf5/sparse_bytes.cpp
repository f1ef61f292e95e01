// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/sparse_bytes.hpp"

#include <algorithm>
#include <cstring>

namespace tpx::formats::hdf5 {
namespace {

/// Calls `visit(block, begin, bytes, done)` for each block that overlaps the `length` bytes at `offset`: the block's
/// number, the first of these bytes in the block, how many of them it contains, and how many were in earlier blocks.
template <class Visit>
void for_each_block(std::uint64_t offset, std::uint64_t length, Visit&& visit) {
    for (std::uint64_t done = 0; done < length;) {
        const std::uint64_t begin = (offset + done) % SparseBytes::block_size;
        const std::uint64_t bytes = std::min(length - done, SparseBytes::block_size - begin);
        visit((offset + done) / SparseBytes::block_size, begin, bytes, done);
        done += bytes;
    }
}

}  // namespace

void SparseBytes::resize(std::uint64_t size) {
    if (size < size_) {
        blocks_.erase(blocks_.lower_bound((size + block_size - 1) / block_size), blocks_.end());
        const auto last = blocks_.find(size / block_size);
        if (last != blocks_.end())
            std::fill(last->second->begin() + static_cast<std::ptrdiff_t>(size % block_size), last->second->end(),
                      std::byte{});
    }
    size_ = size;
}

void SparseBytes::write(std::uint64_t offset, std::span<const std::byte> bytes) {
    for_each_block(offset, bytes.size(), [&](auto number, auto begin, auto count, auto done) {
        std::unique_ptr<Block>& block = blocks_[number];
        if (!block) block = std::make_unique<Block>();
        std::memcpy(block->data() + begin, bytes.data() + done, count);
    });
    size_ = std::max(size_, offset + bytes.size());
}

void SparseBytes::read(std::uint64_t offset, std::span<std::byte> into) const {
    for_each_block(offset, into.size(), [&](auto number, auto begin, auto count, auto done) {
        const auto block = blocks_.find(number);
        if (block == blocks_.end())
            std::memset(into.data() + done, 0, count);
        else
            std::memcpy(into.data() + done, block->second->data() + begin, count);
    });
}

std::vector<SparseBytes::Run> SparseBytes::runs() const {
    std::vector<Run> found;
    for (const auto& [number, block] : blocks_) {
        const std::uint64_t offset = number * block_size;
        if (offset >= size_) break;
        if (found.empty() || found.back().offset + found.back().bytes.size() != offset) found.push_back({offset, {}});
        found.back().bytes.append(reinterpret_cast<const char*>(block->data()), std::min(block_size, size_ - offset));
    }
    return found;
}

}  // namespace tpx::formats::hdf5
