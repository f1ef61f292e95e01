// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/core/crc.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// A checksum of bytes at given offsets in the files of a draft: however the bytes are split, their checksum is the XOR
/// of the checksums of the parts.
class WrittenCrc {
public:
    explicit WrittenCrc(const Draft& draft) {
        for (const FileEntry& file : draft.files) {
            begins_.push_back(total_);
            total_ += file.size;
        }
    }

    /// The checksum of `bytes` at `offset` of a file, within its size.
    std::uint64_t of(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes) const {
        return at(file, offset, bytes.size(), Crc64::of(bytes));
    }

    /// The same for `size` bytes of which the linear CRC-64 is `crc`.
    std::uint64_t at(std::uint32_t file, std::uint64_t offset, std::uint64_t size, std::uint64_t crc) const {
        return multiply(crc, Crc64::power(8 * (total_ - begins_[file] - offset - size)));
    }

private:
    std::vector<std::uint64_t> begins_;  // as if the files were concatenated
    std::uint64_t total_ = 0;
};

}  // namespace tpx
