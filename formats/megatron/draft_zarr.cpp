// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/new_objects.hpp"
#include "formats/encodings/zarr/array.hpp"
#include "formats/megatron/dist_checkpointing.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/megatron/new_objects.hpp"
#include "formats/megatron/zarr.hpp"
#include "formats/megatron/zarr_names.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <span>

namespace tpx::formats {
namespace zarr {
namespace {

/// The largest chunk shape such that no chunk crosses a boundary between boxes. If all boxes have the same size, there
/// is one chunk for each, as Megatron-core writes them.
Shape chunk_of(const Shape& shape, std::span<const Piece> pieces) {
    Shape chunk;
    for (int axis = 0; axis < shape.size(); ++axis) {
        Index common = 0;  // divides all boundaries inside the tensor; 0: there are none
        for (const Piece& piece : pieces) {
            if (tpx::empty(piece.box)) continue;
            const auto [begin, end] = piece.box[axis];
            common = std::gcd(common, std::gcd(begin, end == shape[axis] ? 0 : end));
        }
        chunk.push_back(std::max<Index>(common == 0 ? shape[axis] : common, 1));
    }
    return chunk;
}

/// The limit of chunks per box. Unequal boxes may have a common size of one row, and so many chunks would be slow to
/// read and write.
constexpr std::size_t most_chunks_per_box = 64;

/// Adds to `draft` the array of one tensor: its `.zarray`, and a file for each of its chunks.
class ArrayDraft {
public:
    ArrayDraft(Draft& draft, const std::filesystem::path& folder, std::uint32_t tensor, std::span<const Piece> pieces)
        : draft_{draft}, folder_{folder / draft.tensors[tensor].name} {
        const Tensor& whole = draft.tensors[tensor];
        array_ = {.dtype = whole.dtype, .shape = whole.shape, .chunk = chunk_of(whole.shape, pieces), .fill = {}};
        const auto chunks = static_cast<std::size_t>(volume(chunk_grid(array_)));
        if (chunks > most_chunks_per_box * std::max<std::size_t>(pieces.size(), 1))
            throw failure(
                "the parts of the ranks have no common size ({} chunk files would be needed); use --format "
                "torch_dist",
                chunks);
        add_file(draft, folder_ / ".zarray", write_zarr_array(array_));
    }

    /// Adds the chunks of a piece that have not been added yet.
    void add(const Piece& piece) {
        if (!tpx::empty(piece.box)) add_chunks(piece, {});
    }

private:
    /// Adds the chunks whose index begins with `index`.
    void add_chunks(const Piece& piece, const Shape& index) {
        const int axis = index.size();
        if (axis == array_.shape.size()) return add_chunk(piece, index);
        for (Index k = piece.box[axis].begin / array_.chunk[axis]; k * array_.chunk[axis] < piece.box[axis].end; ++k) {
            Shape longer = index;
            longer.push_back(k);
            add_chunks(piece, longer);
        }
    }

    void add_chunk(const Piece& piece, const Shape& index) {
        const std::string name = chunk_name(index);
        if (!names_.insert(name).second) return;  // already added for a replica
        Piece chunk = piece;
        chunk.file = static_cast<std::uint32_t>(draft_.files.size());
        chunk.offset = 0;
        chunk.box = chunk_box(index, array_);
        chunk.strides = row_major(array_.chunk);
        chunk.rank = std::max(piece.rank, 0);
        draft_.files.push_back({folder_ / name, chunk_bytes(array_)});
        draft_.pieces.push_back(chunk);
    }

    Draft& draft_;
    std::filesystem::path folder_;
    ZarrArray array_;
    std::set<std::string> names_;
};

void add_arrays(Draft& draft, const Content& content, const std::filesystem::path& folder) {
    std::vector<std::vector<Piece>> pieces(content.tensors.size());
    for (const Piece& piece : content.pieces) pieces[piece.tensor].push_back(piece);
    for (std::uint32_t t = 0; t < content.tensors.size(); ++t)
        in_context([&] { return fmt::format("tensor '{}'", content.tensors[t].name); },
                   [&] {
                       ArrayDraft array{draft, folder, t, pieces[t]};
                       for (const Piece& piece : pieces[t]) array.add(piece);
                   });
}

void add_objects(Draft& draft, const Content& content, const std::filesystem::path& folder,
                 std::vector<std::string>& notes) {
    const NewObjects objects = megatron::new_objects(content, megatron::ObjectForm::bare);
    std::vector<std::string> dropped;
    const auto has_place = [&](const std::string& name) {
        if (!is_object_name(name)) dropped.push_back(name);
        return is_object_name(name);
    };
    for (const Object& object : objects.kept) {
        if (!has_place(object.name)) continue;
        const auto file = static_cast<std::uint32_t>(draft.files.size());
        draft.files.push_back({folder / (object.name + ".pt"), object.length});
        draft.copies.push_back({content.source->catalogue.path(object.file), object.offset, object.length, file, 0});
    }
    for (const NewObjects::Made& object : objects.made)
        if (has_place(object.name)) add_file(draft, folder / (object.name + ".pt"), object.bytes);
    if (!dropped.empty())
        notes.push_back(fmt::format("dropped {} whose name is not of the form KEY/shard_OFFSETS_SHAPE ('{}'{})",
                                    counted(dropped.size(), "object"), dropped[0], dropped.size() > 1 ? ", ..." : ""));
}

}  // namespace
}  // namespace zarr

Draft draft_zarr(const Content& content, std::vector<std::string>& notes) {
    const std::filesystem::path folder = megatron::new_folder(content);
    Draft draft;
    draft.tensors = content.tensors;
    zarr::add_arrays(draft, content, folder);
    zarr::add_objects(draft, content, folder, notes);
    megatron::add_common_files(draft, content, zarr_driver.name);
    return draft;
}

}  // namespace tpx::formats
