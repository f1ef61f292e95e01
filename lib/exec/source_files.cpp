// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/source_files.hpp"

#include "lib/core/error.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/image.hpp"
#include "lib/exec/read_digests.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

namespace tpx {
namespace {

std::vector<std::filesystem::path> paths_of(std::span<const SourceFile> files) {
    std::vector<std::filesystem::path> paths;
    for (const SourceFile& file : files) paths.push_back(file.path);
    return paths;
}

/// Fills `into`, the bytes from `begin` on of a chunk that consists of copies of `pattern`.
void fill(std::span<std::byte> into, std::uint64_t begin, std::string_view pattern) {
    if (pattern.empty()) {
        std::ranges::fill(into, std::byte{0});
        return;
    }
    for (std::size_t k = 0; k < into.size(); ++k)
        into[k] = static_cast<std::byte>(pattern[(begin + k) % pattern.size()]);
}

/// The Error for a chunk of `file` that takes `decoding` bytes to decode and as many again for buffers, of which there
/// are only `memory`.
Error too_large(const SourceFile& file, std::uint64_t decoding, std::uint64_t memory) {
    const auto text = [](std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
    const Coding& coding = *file.coding;
    if (coding.is_computed())
        return failure("{}: {}: {} takes {} of memory, more than the {} that are left for buffers", file.path.string(),
                       coding.owner,
                       merged_weight(coding) ? "merging"
                       : coding.quantized    ? "quantizing"
                                             : "dequantizing",
                       text(2 * decoding), text(memory));
    const auto longest = std::ranges::max_element(coding.chunks, {}, &Coding::Chunk::length);
    return failure(
        "{}: {}{}{} of compressed data decode to {} in one chunk, which takes {} of memory, more than the {} that are "
        "left for buffers; a larger --memory (at least {}GiB) or a file without compression is needed",
        file.path.string(), coding.owner, coding.owner.empty() ? "" : ": ", text(longest->length),
        text(std::min(coding.chunk_size, coding.size)), text(2 * decoding), text(memory), (2 * decoding >> 30) + 1);
}

}  // namespace

SourceFiles::SourceFiles(std::span<const SourceFile> files, ReadDigests* digests)
    : files_{files}, paths_{paths_of(files)}, open_{paths_, O_RDONLY}, digests_{digests} {
    if (digests_ != nullptr)
        for (const std::filesystem::path& path : paths_) numbers_.push_back(digests_->number_of(path));
}

void SourceFiles::read_stored(std::uint32_t file, std::uint64_t offset, std::span<std::byte> into) {
    open_.read(file, offset, into);
    if (digests_ != nullptr && numbers_[file]) digests_->add(*numbers_[file], offset, into);
}

void SourceFiles::read_decoded(std::uint32_t file, std::uint64_t offset, std::span<std::byte> into) {
    const Coding& coding = *files_[file].coding;
    if (offset > coding.size || into.size() > coding.size - offset)
        throw failure("{}: byte {} of {} decoded bytes was requested", paths_[file].string(), offset + into.size(),
                      coding.size);
    if (coding.is_computed()) {
        const auto read_part = [this](std::uint32_t part, std::uint64_t at, std::span<std::byte> bytes) {
            read(part, at, bytes);
        };
        if (coding.ggml) return block_reader_.read(*coding.ggml, offset, into, read_part);
        if (coding.quantized) {
            const auto owner = [&] { return fmt::format("{}: {}", paths_[file].string(), coding.owner); };
            return in_context(owner, [&] { quantizer_.read(*coding.quantized, offset, into, read_part); });
        }
        if (const MergedWeight* merged = merged_weight(coding)) return merger_.read(*merged, offset, into, read_part);
        return dequantizer_.read(*coding.scaled, offset, into, read_part);
    }
    while (!into.empty()) {
        const std::uint64_t k = offset / coding.chunk_size;
        const std::uint64_t begin = offset - k * coding.chunk_size;
        const std::uint64_t size = coding.size_of(k);
        const auto part = into.first(std::min<std::uint64_t>(into.size(), size - begin));
        if (coding.chunks[k].length == 0) {
            fill(part, begin, coding.fill);
        } else if (part.size() == size) {
            decode(file, k, part);
        } else {
            if (held_ != std::pair{file, k}) {
                held_.reset();
                chunk_.resize(size);
                decode(file, k, chunk_);
                held_ = {file, k};
            }
            std::memcpy(part.data(), chunk_.data() + begin, part.size());
        }
        offset += part.size();
        into = into.subspan(part.size());
    }
}

void SourceFiles::decode(std::uint32_t file, std::uint64_t chunk, std::span<std::byte> into) {
    const Coding& coding = *files_[file].coding;
    const Coding::Chunk& stored = coding.chunks[chunk];
    read_stored(file, stored.offset, decoder_.stored(stored.length));
    const auto context = [&] {
        return fmt::format("{}: {}{}{} bytes at {}", paths_[file].string(), coding.owner,
                           coding.owner.empty() ? "" : ": ", stored.length, stored.offset);
    };
    in_context(context, [&] { decoder_.decode(coding, stored.skipped, into); });
}

std::vector<SourceFile> raw_files(std::span<const std::filesystem::path> paths) {
    std::vector<SourceFile> files;
    for (const std::filesystem::path& path : paths) files.push_back({path});
    return files;
}

std::vector<bool> decoded(std::span<const SourceFile> files) {
    std::vector<bool> result;
    const auto costly = [](Coding::Filter filter) {
        return filter == Coding::Filter::deflate || filter == Coding::Filter::raw_deflate ||
               filter == Coding::Filter::lzf || filter == Coding::Filter::scale_offset ||
               filter == Coding::Filter::shuffle;
    };
    for (const SourceFile& file : files)
        result.push_back(file.coding && std::ranges::any_of(file.coding->filters, costly));
    return result;
}

namespace {

/// The memory for decoding the values from which a merged or quantized weight is computed: these can themselves be
/// computed or compressed.
std::uint64_t memory_of_base(const SourceFile& file, std::span<const SourceFile> files) {
    if (!file.coding) return 0;
    const MergedWeight* merged = merged_weight(*file.coding);
    if (merged == nullptr && !file.coding->quantized) return 0;
    const SourceFile& base = files[merged != nullptr ? merged->base.file : file.coding->quantized->base.file];
    return base.coding ? decoding_memory(*base.coding) + memory_of_base(base, files) : 0;
}

}  // namespace

FittedOptions fit_decoding_memory(const ExecOptions& wanted, std::span<const SourceFile> files) {
    std::uint64_t decoding = 0;
    const SourceFile* largest = nullptr;
    for (const SourceFile& file : files) {
        std::uint64_t needed = file.coding ? decoding_memory(*file.coding) : 0;
        needed += memory_of_base(file, files);
        if (needed > decoding) largest = &file;
        decoding = std::max(decoding, needed);
    }
    FittedOptions fitted{wanted, 0};
    int& threads = fitted.options.threads;
    while (threads > 1 && wanted.memory / static_cast<std::uint64_t>(threads) / 2 < decoding) --threads;
    const std::uint64_t share = wanted.memory / static_cast<std::uint64_t>(threads);
    if (share / 2 < decoding) throw too_large(*largest, decoding, wanted.memory);
    fitted.memory = share - decoding;
    return fitted;
}

void check_lengths(const mpi::Comm& comm, const Side& side, const std::vector<bool>& wanted,
                   std::span<const SourceFile> files) {
    std::vector<std::optional<std::uint64_t>> lengths(files.size());
    for (std::size_t k = 0; k < side.pieces.size(); ++k) {
        const Piece& piece = side.pieces[k];
        const bool mine = piece.file % static_cast<std::uint32_t>(comm.size()) == std::uint32_t(comm.rank());
        if (!mine || !wanted[k] || empty(piece.box)) continue;
        const SourceFile& file = files[piece.file];
        auto& length = lengths[piece.file];
        if (!length) length = file.coding ? file.coding->size : size_of_file(file.path);
        const Tensor& tensor = side.tensors[piece.tensor];
        const std::uint64_t end = image_of(piece, itemsize(tensor.dtype), piece.box).end;
        if (end > *length)
            throw failure("{}: tensor '{}': ends at byte {} of a file of {} bytes", file.path.string(), tensor.name,
                          end, *length);
    }
}

}  // namespace tpx
