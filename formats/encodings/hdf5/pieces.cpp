// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/pieces.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <set>

namespace tpx::formats::hdf5 {
namespace {

using Filter = Coding::Filter;

constexpr std::uint64_t small_chunk = 4096;

class Adder {
public:
    Adder(const DatasetFacts& facts, std::uint32_t tensor, const Box& box, std::int32_t rank, std::uint32_t file,
          Catalogue& catalogue)
        : facts_{facts},
          tensor_{tensor},
          box_{box},
          rank_{rank},
          file_{file},
          catalogue_{catalogue},
          file_size_{catalogue.files[file].size} {}

    void add() {
        const Index elements = volume(box_);
        if (elements == 0) return;
        if (__builtin_mul_overflow(static_cast<std::uint64_t>(elements), std::uint64_t{facts_.item}, &bytes_))
            throw failure("{} elements of {} bytes are too large", elements, facts_.item);
        if (facts_.storage == Storage::chunked)
            add_chunked();
        else if (facts_.storage == Storage::compact || !facts_.written)
            add_filled(bytes_, whole_local());
        else
            add_contiguous();
    }

private:
    Box whole_local() const { return whole(sizes(box_)); }

    /// Adds a piece for `part` of the dataset, whose first element is at `offset` of `file`.
    void put(const Box& part, std::uint32_t file, std::uint64_t offset, const Strides& strides) {
        Piece piece{.tensor = tensor_, .file = file, .offset = offset, .strides = strides, .rank = rank_};
        for (int k = 0; k < part.size(); ++k)
            piece.box.push_back({box_[k].begin + part[k].begin, box_[k].begin + part[k].end});
        catalogue_.pieces.push_back(piece);
    }

    std::uint32_t add_file(Coding coding) {
        const auto number = static_cast<std::uint32_t>(catalogue_.files.size());
        coding.owner = fmt::format("dataset '{}'", facts_.path);
        if (catalogue_.files[file_].coding) throw failure("is stored in chunks inside a compressed archive");
        catalogue_.files.push_back(
            {catalogue_.files[file_].path, coding.size, std::make_shared<const Coding>(std::move(coding))});
        return number;
    }

    void check_inside(std::uint64_t offset, std::uint64_t length) const {
        if (offset > file_size_ || length > file_size_ - offset)
            throw failure("{} bytes at {} are not all in a file of {}", length, offset, file_size_);
    }

    void add_contiguous() {
        check_inside(facts_.offset, bytes_);
        const Strides strides = row_major(sizes(box_));
        if (!is_swapped()) return put(whole_local(), file_, facts_.offset, strides);
        put(whole_local(), add_file(Coding::of_items({Filter::swap}, facts_.part, facts_.offset, bytes_)), 0, strides);
    }

    /// Adds a piece for `part`, which is not stored at all, or only in the dataset's header.
    void add_filled(std::uint64_t bytes, const Box& part) {
        Coding coding{.chunk_size = bytes, .size = bytes, .chunks = {{0, 0, 0}}, .fill = facts_.fill};
        put(part, add_file(std::move(coding)), 0, row_major(sizes(part)));
    }

    bool is_swapped() const { return facts_.swapped && facts_.part > 1; }

    // --- chunks

    struct Grid {
        Shape chunk;
        Shape counts;
        std::uint64_t bytes = 0;  ///< of a chunk
        Index chunks = 1;         ///< number of chunks in the whole dataset
    };

    Grid grid() const {
        Grid grid;
        const Shape shape = sizes(box_);
        for (int k = 0; k < shape.size(); ++k) {
            const bool cut = static_cast<std::size_t>(k) < facts_.chunk_shape.size();
            const Index size = cut ? static_cast<Index>(facts_.chunk_shape[static_cast<std::size_t>(k)]) : shape[k];
            if (size <= 0) throw failure("has chunks of {} elements", size);
            grid.chunk.push_back(size);
            grid.counts.push_back((shape[k] - 1) / size + 1);
        }
        const Index elements = checked_volume(grid.chunk);
        grid.chunks = checked_volume(grid.counts);
        if (elements < 0 || grid.chunks < 0 ||
            __builtin_mul_overflow(static_cast<std::uint64_t>(elements), std::uint64_t{facts_.item}, &grid.bytes))
            throw failure("has chunks of shape {} for a dataset of shape {}, which is invalid", to_string(grid.chunk),
                          to_string(shape));
        return grid;
    }

    struct Stored {
        Tuple<Index> at;  ///< on the grid
        Coding::Chunk chunk;
    };

    std::vector<Stored> stored_chunks(const Grid& grid) const {
        const std::size_t axes = facts_.chunk_shape.size();
        std::vector<Stored> all;
        for (std::size_t k = 0; k + axes + 3 <= facts_.chunks.size(); k += axes + 3) {
            const std::uint64_t* facts = facts_.chunks.data() + k;
            Stored stored{Tuple<Index>(grid.chunk.size()),
                          {facts[axes], facts[axes + 1], static_cast<std::uint32_t>(facts[axes + 2])}};
            for (std::size_t axis = 0; axis < axes; ++axis) {
                const int k_axis = static_cast<int>(axis);
                const auto first = static_cast<Index>(facts[axis]);
                if (first < 0 || first % grid.chunk[k_axis] != 0)
                    throw failure("has a chunk at {}, where no chunk can begin", facts[axis]);
                stored.at[k_axis] = first / grid.chunk[k_axis];
            }
            // A dataset that was made smaller may still have chunks outside its shape.
            bool inside = true;
            for (int axis = 0; axis < stored.at.size(); ++axis) inside = inside && stored.at[axis] < grid.counts[axis];
            if (inside) all.push_back(stored);
        }
        return all;
    }

    Box part_of(const Grid& grid, const Tuple<Index>& at) const {
        Box part;
        for (int k = 0; k < at.size(); ++k) {
            const Index begin = at[k] * grid.chunk[k];
            part.push_back({begin, std::min(begin + grid.chunk[k], box_[k].size())});
        }
        return part;
    }

    void check_chunk(const Grid& grid, const Coding& coding, const Coding::Chunk& chunk) const {
        check_inside(chunk.offset, chunk.length);
        bool compressed = false;
        std::uint64_t plain = grid.bytes;
        for (std::size_t k = 0; k < coding.filters.size(); ++k) {
            if (k < 32 && (chunk.skipped >> k & 1) != 0) continue;
            // Any stored length is possible: a chunk of equal elements has no codes.
            if (coding.filters[k] == Filter::scale_offset && !coding.scale_offset.value().is_identity) return;
            compressed |= coding.filters[k] == Filter::deflate || coding.filters[k] == Filter::lzf;
            if (coding.filters[k] == Filter::fletcher32) plain += 4;
        }
        if (compressed ? grid.bytes / Coding::max_inflation > chunk.length + small_chunk : plain != chunk.length)
            throw failure("has {} bytes at {} for a chunk of {}", chunk.length, chunk.offset, grid.bytes);
    }

    void add_chunked() {
        const Grid grid = this->grid();
        std::vector<Stored> chunks = stored_chunks(grid);
        if (chunks.empty()) return add_filled(bytes_, whole_local());
        Coding coding{.filters = facts_.filters,
                      .item = facts_.item,
                      .scale_offset = facts_.scale_offset,
                      .chunk_size = grid.bytes};
        const bool raw = coding.filters.empty() && !is_swapped();
        const std::uint32_t all_filters = (std::uint32_t{1} << coding.filters.size()) - 1;
        std::uint32_t file = file_;
        if (!raw) file = static_cast<std::uint32_t>(catalogue_.files.size());
        const Strides strides = row_major(grid.chunk);
        for (Stored& stored : chunks) {
            const Box part = part_of(grid, stored.at);
            if (facts_.edges_are_plain && sizes(part) != grid.chunk) stored.chunk.skipped = all_filters;
            check_chunk(grid, coding, stored.chunk);
            put(part, file, raw ? stored.chunk.offset : coding.size, strides);
            if (raw) continue;
            coding.chunks.push_back(stored.chunk);
            coding.size += grid.bytes;
        }
        if (!raw) {
            if (is_swapped()) add_swap(coding);
            add_file(std::move(coding));
        }
        add_missing(grid, chunks);
    }

    /// Adds the filter that swaps bytes. It works on numbers, of which a complex element has two, but shuffling works
    /// on whole elements.
    void add_swap(Coding& coding) const {
        coding.filters.push_back(Filter::swap);
        const bool shuffled = std::ranges::count(coding.filters, Filter::shuffle) > 0;
        if (shuffled && facts_.part != facts_.item)
            throw failure("contains shuffled big-endian complex numbers, which tpx cannot read");
        coding.item = facts_.part;
    }

    /// Adds pieces with the fill value for chunks that were never written.
    void add_missing(const Grid& grid, const std::vector<Stored>& chunks) {
        std::set<Tuple<Index>> present;
        for (const Stored& stored : chunks) {
            if (!present.insert(stored.at).second)
                throw failure("has two chunks at {}", to_string(part_of(grid, stored.at)));
        }
        const auto count = static_cast<Index>(chunks.size());
        if (grid.chunks == count) return;
        if (grid.chunks > 64 * count + 65536)
            throw failure("has {} chunks, of which {} are stored", grid.chunks, count);
        std::optional<std::uint32_t> file;
        Tuple<Index> at(grid.counts.size());
        for (Index k = 0; k < grid.chunks; ++k) {
            Index rest = k;
            for (int axis = at.size() - 1; axis >= 0; --axis) {
                at[axis] = rest % grid.counts[axis];
                rest /= grid.counts[axis];
            }
            if (present.contains(at)) continue;
            if (!file)
                file = add_file(
                    {.chunk_size = grid.bytes, .size = grid.bytes, .chunks = {{0, 0, 0}}, .fill = facts_.fill});
            put(part_of(grid, at), *file, 0, row_major(grid.chunk));
        }
    }

    const DatasetFacts& facts_;
    std::uint32_t tensor_;
    const Box& box_;
    std::int32_t rank_;
    std::uint32_t file_;
    Catalogue& catalogue_;
    std::uint64_t file_size_;
    std::uint64_t bytes_ = 0;
};

std::optional<DType> named_dtype(std::string_view name) {
    if (const auto dtype = dtype_by_torch(name)) return dtype;
    if (const auto dtype = dtype_by_name(name)) return dtype;
    return dtype_by_safetensors(name);
}

}  // namespace

DType dtype_of(const DatasetFacts& facts) {
    if (!facts.refusal.empty()) throw failure("{}", facts.refusal);
    const std::string* name = facts.is_ambiguous ? text_of(facts.attributes, "dtype") : nullptr;
    if (name != nullptr) {
        const auto dtype = named_dtype(*name);
        if (dtype && itemsize(*dtype) == static_cast<int>(facts.item)) return *dtype;
    }
    return facts.dtype.value();
}

Shape shape_of(const DatasetFacts& facts) {
    Shape shape;
    if (facts.shape.size() > max_rank) throw failure("has {} axes, more than {}", facts.shape.size(), max_rank);
    for (std::uint64_t size : facts.shape) shape.push_back(static_cast<Index>(size));
    if (checked_volume(shape) < 0) throw failure("shape {} is too large", to_string(shape));
    return shape;
}

void add_pieces(const DatasetFacts& facts, std::uint32_t tensor, const Box& box, std::int32_t rank, std::uint32_t file,
                Catalogue& catalogue) {
    Adder{facts, tensor, box, rank, file, catalogue}.add();
}

}  // namespace tpx::formats::hdf5
