// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/core/crc.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// A checksum of bytes at places in the files of a draft: that of parts is the XOR of theirs, however the bytes are
/// cut.
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
        const std::uint64_t after = total_ - begins_[file] - offset - bytes.size();
        return multiply(Crc64::of(bytes), Crc64::power(8 * after));
    }

private:
    std::vector<std::uint64_t> begins_;  // as if the files lay one after the other
    std::uint64_t total_ = 0;
};

}  // namespace tpx
