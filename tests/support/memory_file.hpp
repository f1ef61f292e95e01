// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/zip.hpp"
#include "lib/core/file.hpp"

#include <sys/mman.h>

#include <span>
#include <string_view>

namespace tpx::test {

/// A file in memory, without a path, for readers that need a file.
class MemoryFile {
public:
    explicit MemoryFile(std::string_view content) : fd_{::memfd_create("test", MFD_CLOEXEC)}, size_{content.size()} {
        write_at(fd_, 0, std::as_bytes(std::span{content}), "memory");
    }

    torch::FileRange range() const { return {&fd_, "memory", 0, size_}; }

private:
    Fd fd_;
    std::size_t size_;
};

}  // namespace tpx::test
