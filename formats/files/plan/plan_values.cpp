// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/plan_values.hpp"

#include "formats/encodings/torch/text.hpp"
#include "lib/core/error.hpp"

#include <optional>
#include <string_view>
#include <unordered_set>

namespace tpx::formats {
namespace {

void check_tensors(const FileChange& content) {
    if (content.target_dtypes.size() != content.tensors.size())
        throw failure("{} tensors, {} target dtypes", content.tensors.size(), content.target_dtypes.size());
    std::unordered_set<std::string_view> names;
    for (const Tensor& tensor : content.tensors) {
        if (tensor.name.empty() || !torch::is_utf8(tensor.name)) throw failure("a tensor's name is empty or not UTF-8");
        if (!names.insert(tensor.name).second) throw failure("tensor '{}': named twice", tensor.name);
        if (checked_volume(tensor.shape) < 0)
            throw failure("tensor '{}': impossible shape {}", tensor.name, to_string(tensor.shape));
    }
}

void check_files(std::span<const FileEntry> files) {
    for (const FileEntry& file : files) {
        bool stays = !file.path.empty() && file.path.is_relative();
        for (const auto& part : file.path) stays = stays && part != "..";
        if (!stays) throw failure("file '{}': not a path inside a checkpoint", file.path.string());
    }
}

// One past the last byte of `piece`; unset if it exceeds 64 bits.
std::optional<std::uint64_t> end_of(const Piece& piece, DType dtype) {
    Index last = 0;
    for (int k = 0; k < piece.strides.size(); ++k) {
        Index step = 0;
        if (__builtin_mul_overflow(piece.box[k].size() - 1, piece.strides[k], &step) ||
            __builtin_add_overflow(last, step, &last))
            return std::nullopt;
    }
    std::uint64_t end = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(last) + 1, static_cast<std::uint64_t>(itemsize(dtype)),
                               &end) ||
        __builtin_add_overflow(end, piece.offset, &end))
        return std::nullopt;
    return end;
}

void check_piece(const Piece& piece, const Tensor& tensor, DType dtype, std::span<const FileEntry> files) {
    const Box all = whole(tensor.shape);
    bool fits = piece.box.size() == all.size() && piece.rank >= -1;
    for (int k = 0; fits && k < all.size(); ++k) {
        const Interval side = piece.box[k];
        fits = side.begin <= side.end && all[k].contains(side);
    }
    if (!fits)
        throw failure("tensor '{}': a piece {} of rank {} is not within its shape {}", tensor.name,
                      to_string(piece.box), piece.rank, to_string(tensor.shape));
    if (!piece.strides.empty() && piece.strides.size() != all.size())
        throw failure("tensor '{}': a piece has {} strides for {} axes", tensor.name, piece.strides.size(), all.size());
    for (Index stride : piece.strides) {
        if (stride < 0) throw failure("tensor '{}': a piece has a stride of {}", tensor.name, stride);
    }
    if (files.empty()) {
        if (piece.file != 0) throw failure("tensor '{}': a piece is in file {} of 0", tensor.name, piece.file);
        return;
    }
    if (piece.file >= files.size())
        throw failure("tensor '{}': a piece is in file {} of {}", tensor.name, piece.file, files.size());
    const std::optional<std::uint64_t> end = volume(piece.box) == 0 ? piece.offset : end_of(piece, dtype);
    if (!end || *end > files[piece.file].size)
        throw failure("tensor '{}': a piece at byte {} extends beyond its file '{}' of {} bytes", tensor.name,
                      piece.offset, files[piece.file].path.string(), files[piece.file].size);
}

}  // namespace

void check_values(const FileChange& content) {
    check_tensors(content);
    check_files(content.source_files);
    check_files(content.target_files);
    for (const Piece& piece : content.source) {
        if (piece.tensor >= content.tensors.size())
            throw failure("a source piece belongs to tensor {} of {}", piece.tensor, content.tensors.size());
        const Tensor& tensor = content.tensors[piece.tensor];
        check_piece(piece, tensor, tensor.dtype, content.source_files);
    }
    for (const Piece& piece : content.target) {
        if (piece.tensor >= content.tensors.size())
            throw failure("a target piece belongs to tensor {} of {}", piece.tensor, content.tensors.size());
        check_piece(piece, content.tensors[piece.tensor], content.target_dtypes[piece.tensor], content.target_files);
    }
    for (const Move& move : content.moves) {
        if (move.source >= content.source.size() || move.target >= content.target.size())
            throw failure("a move from piece {} of {} to piece {} of {}", move.source, content.source.size(),
                          move.target, content.target.size());
    }
}

}  // namespace tpx::formats
