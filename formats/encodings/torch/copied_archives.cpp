// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/copied_archives.hpp"

#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <span>
#include <string>

namespace tpx::torch {
namespace {

/// Whether the first stored elements of `tensor` differ.
bool varies(const std::filesystem::path& path, const Storage& storage, const StoredTensor& tensor) {
    constexpr std::uint64_t most_bytes = 4096;
    const auto item = static_cast<std::uint64_t>(std::max(1, itemsize(tensor.dtype)));
    const std::uint64_t end = storage.offset + storage.bytes;
    std::string bytes(std::min(most_bytes, end - std::min(end, tensor.offset)), '\0');
    if (tensor.compressed || bytes.size() <= item) return false;
    read_at(open_file(path, O_RDONLY), tensor.offset, std::as_writable_bytes(std::span{bytes}), path);
    return !std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(item), bytes.end(), bytes.begin());
}

}  // namespace

std::optional<std::filesystem::path> CopiedArchives::add(const std::filesystem::path& path, const Archive& archive) {
    const auto hash = archive.storages_hash();
    if (!hash) return std::nullopt;
    const auto [first, added] = seen_.emplace(*hash, path);
    if (added) return std::nullopt;
    for (const NamedTensor& named : archive.tensors()) {
        const Storage* storage = archive.find_storage(named.tensor.storage);
        if (storage && named.tensor.shape.size() >= axes_ && varies(path, *storage, named.tensor)) return first->second;
    }
    return std::nullopt;
}

}  // namespace tpx::torch
