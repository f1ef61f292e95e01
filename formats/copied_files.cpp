// SPDX-License-Identifier: Apache-2.0
#include "formats/copied_files.hpp"

#include "formats/encodings/torch/archive.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

namespace tpx::formats {
namespace {

constexpr std::uint64_t sample_bytes = 4096;

std::string bytes_at(const Fd& fd, const std::filesystem::path& path, std::uint64_t offset, std::uint64_t size) {
    std::string bytes(size, '\0');
    read_at(fd, offset, std::as_writable_bytes(std::span{bytes}), path);
    return bytes;
}

/// Bytes in the middle and at the end of a file, which contain different CRC-32s if the files' tensors differ.
std::string sample(const std::filesystem::path& path, std::uint64_t size) {
    const Fd fd = open_file(path, O_RDONLY);
    const std::uint64_t length = std::min(size, sample_bytes);
    return bytes_at(fd, path, (size - length) / 2, length) + bytes_at(fd, path, size - length, length);
}

bool is_equal(const std::filesystem::path& a, const std::filesystem::path& b, std::uint64_t size,
              const std::function<bool()>& is_cancelled) {
    const Fd one = open_file(a, O_RDONLY);
    const Fd other = open_file(b, O_RDONLY);
    constexpr std::uint64_t block = std::uint64_t{1} << 20;
    for (std::uint64_t at = 0; at < size; at += block) {
        const std::uint64_t length = std::min(block, size - at);
        if (is_cancelled() || bytes_at(one, a, at, length) != bytes_at(other, b, at, length)) return false;
    }
    return true;
}

/// Whether the first elements of the tensor at `piece`, an archive of `length` bytes, differ.
bool varies(const Catalogue& catalogue, const Piece& piece, std::uint64_t length) {
    const std::filesystem::path path = catalogue.path(piece.file);
    const Fd fd = open_file(path, O_RDONLY);
    const torch::StoredTensor stored =
        torch::read_tensor_blob({.fd = &fd, .path = path, .offset = piece.offset, .length = length});
    const auto item = static_cast<std::uint64_t>(itemsize(stored.dtype));
    const std::uint64_t bytes = std::min(sample_bytes, static_cast<std::uint64_t>(volume(stored.shape)) * item);
    if (item == 0 || bytes <= item) return false;
    const std::string first = bytes_at(fd, path, piece.offset + stored.offset, bytes);
    return !std::equal(first.begin() + static_cast<std::ptrdiff_t>(item), first.end(), first.begin());
}

/// Whether the tensors in a file contain more than constants. False if they cannot be read.
bool has_varying_tensors(const Checkpoint& checkpoint, std::uint32_t file) {
    const Catalogue& catalogue = checkpoint.catalogue;
    try {
        for (std::size_t p = 0; p < catalogue.pieces.size(); ++p)
            if (catalogue.pieces[p].file == file && checkpoint.archives[p] > 0 &&
                varies(catalogue, catalogue.pieces[p], checkpoint.archives[p]))
                return true;
    } catch (const Error&) {  // locate() reports it
    }
    return false;
}

}  // namespace

std::vector<std::string> copied_files(const Checkpoint& checkpoint, const std::function<bool()>& is_cancelled) {
    std::vector<std::string> lines;
    const Catalogue& catalogue = checkpoint.catalogue;
    std::map<std::uint64_t, std::vector<std::uint32_t>> by_size;
    for (std::uint32_t f = 0; f < catalogue.files.size(); ++f)
        if (!checkpoint.missing_files.contains(f)) by_size[catalogue.files[f].size].push_back(f);
    for (const auto& [size, files] : by_size) {
        if (files.size() < 2 || checkpoint.archives.empty()) continue;
        std::map<std::string, std::uint32_t> seen;
        for (const std::uint32_t file : files) {
            if (is_cancelled()) return lines;
            const auto path = catalogue.path(file);
            const auto [first, is_new] = seen.emplace(sample(path, size), file);
            if (is_new || !is_equal(path, catalogue.path(first->second), size, is_cancelled)) continue;
            if (has_varying_tensors(checkpoint, file) && has_varying_tensors(checkpoint, first->second))
                lines.push_back(
                    fmt::format("'{}' has the same bytes as '{}'; the file of one rank may have been overwritten",
                                catalogue.files[file].path.string(), catalogue.files[first->second].path.string()));
        }
    }
    return lines;
}

}  // namespace tpx::formats
