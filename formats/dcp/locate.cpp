// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/dcp.hpp"
#include "formats/torch/archive.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

namespace tpx::formats {
namespace {

/// Whether elements follow each other without gaps; the strides of axes of one element do not count.
bool in_one_run(const torch::StoredTensor& stored) {
    const Strides dense = row_major(stored.shape);
    for (int axis = 0; axis < stored.shape.size(); ++axis) {
        if (stored.shape[axis] != 1 && stored.strides[axis] != dense[axis]) return false;
    }
    return true;
}

void locate_one(const Catalogue& catalogue, Piece& piece, const torch::StoredTensor& stored, const Inside& inside) {
    const Tensor& tensor = catalogue.tensors[piece.tensor];
    if (stored.dtype != tensor.dtype)
        throw failure("{} values where the metadata promises {}", tpx::name(stored.dtype), tpx::name(tensor.dtype));
    if (inside.elements > 0) {
        if (volume(stored.shape) != inside.elements || !in_one_run(stored))
            throw failure("shape {} where the metadata promises {} elements in a row", to_string(stored.shape),
                          inside.elements);
        piece.offset = stored.offset + static_cast<std::uint64_t>(inside.begin * itemsize(tensor.dtype));
        return;
    }
    if (stored.shape != sizes(piece.box))
        throw failure("shape {} where the metadata promises {}", to_string(stored.shape), to_string(sizes(piece.box)));
    piece.offset = stored.offset;
    piece.strides = stored.strides;
}

/// `error` with the tensor's name after the file's, which the archive's reader has put in front already.
Error named(const Error& error, const std::string& file, const std::string& tensor) {
    std::string_view cause = error.what();
    if (cause.starts_with(file + ": ")) cause.remove_prefix(file.size() + 2);
    return failure("{}: tensor '{}': {}", file, tensor, cause);
}

}  // namespace

void locate_archives(Checkpoint& checkpoint, std::span<const std::uint32_t> pieces) {
    Catalogue& catalogue = checkpoint.catalogue;
    std::vector<std::uint32_t> order;
    for (std::uint32_t index : pieces)
        if (checkpoint.archives[index] > 0) order.push_back(index);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        const Piece& left = catalogue.pieces[a];
        const Piece& right = catalogue.pieces[b];
        return std::tie(left.file, left.offset) < std::tie(right.file, right.offset);
    });
    constexpr std::uint64_t ends_of_one_tensor = 1024;  // on each side of its payload are fewer
    torch::FileRange range{.ends = ends_of_one_tensor};
    torch::StoredTensor stored;
    Fd fd;
    const Piece* last = nullptr;
    for (std::uint32_t index : order) {
        Piece& piece = catalogue.pieces[index];
        const bool same_file = last != nullptr && last->file == piece.file;
        if (!same_file) {
            range.path = catalogue.path(piece.file);
            fd = open_file(range.path, O_RDONLY);
        }
        const bool same_archive = same_file && range.offset == piece.offset;
        range.fd = &fd;
        range.offset = piece.offset;
        range.length = checkpoint.archives[index];
        last = &piece;
        try {
            if (!same_archive) stored = torch::read_tensor_blob(range);
            locate_one(catalogue, piece, stored, checkpoint.insides.empty() ? Inside{} : checkpoint.insides[index]);
        } catch (const Error& error) {
            throw named(error, range.path.string(), catalogue.tensors[piece.tensor].name);
        }
        checkpoint.archives[index] = 0;
    }
}

}  // namespace tpx::formats
