// SPDX-License-Identifier: Apache-2.0
#include "lib/core/mapped_file.hpp"

#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <sys/mman.h>

#include <cerrno>

namespace tpx {

MappedFile::MappedFile(const Fd& file, std::uint64_t size, Access access, const std::filesystem::path& path) {
    if (size == 0) return;  // mmap refuses it
    const int protection = access == Access::write ? PROT_READ | PROT_WRITE : PROT_READ;
    void* const memory = ::mmap(nullptr, size, protection, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) throw system_failure(path, errno);
    bytes_ = {static_cast<std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace tpx
