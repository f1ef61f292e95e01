// SPDX-License-Identifier: Apache-2.0
#include "tests/mpi/random_job.hpp"

#include "lib/exec/copy_elements.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tpx::test {
namespace {

Index pick(Random& random, Index below) { return Index(random() % std::uint64_t(below)); }

// Consecutive parts of [0, size).
std::vector<Interval> cuts(Random& random, Index size) {
    std::vector<Index> points{0, size};
    for (Index k = pick(random, 4); k > 0; --k) points.push_back(pick(random, size + 1));
    std::ranges::sort(points);
    std::vector<Interval> parts;
    for (std::size_t k = 1; k < points.size(); ++k) {
        if (points[k - 1] < points[k]) parts.push_back({points[k - 1], points[k]});
    }
    return parts;
}

std::vector<Box> grid(Random& random, const Shape& shape) {
    std::vector<Box> boxes{Box{}};
    for (Index size : shape) {
        std::vector<Box> longer;
        const auto parts = cuts(random, size);
        for (const Box& box : boxes) {
            for (Interval part : parts) {
                longer.push_back(box);
                longer.back().push_back(part);
            }
        }
        boxes = std::move(longer);
    }
    return boxes;
}

// Dense strides with the axes in a random order, usually the normal one.
Strides dense_strides(Random& random, const Box& box) {
    std::vector<int> order(std::size_t(box.size()));
    std::iota(order.begin(), order.end(), 0);
    if (random() % 4 == 0) std::ranges::shuffle(order, random);
    Strides strides(box.size());
    Index step = 1;
    for (auto k = order.rbegin(); k != order.rend(); ++k) {
        strides[*k] = step;
        step *= box[*k].size();
    }
    return strides;
}

class Builder {
public:
    Builder(Random& random, RandomSide& side, std::uint32_t files) : random_{random}, side_{side}, files_{files} {
        side_.files.resize(files);
        side_.tilings.resize(side_.tensors.size());
    }

    // Tensors `tensor` and the one after it, of equal shapes and dtypes, split alike, so that their pieces can be
    // interleaved.
    void add_twins(std::uint32_t tensor) {
        const Tensor& twin = side_.tensors[tensor];
        std::vector<std::uint32_t> first, second;
        for (const Box& box : grid(random_, twin.shape)) {
            if (box.size() > 0 && random_() % 2 == 0) {
                add_interleaved(tensor, box, first, second);
            } else {
                first.push_back(add(tensor, box, dense_strides(random_, box), 0));
                second.push_back(add(tensor + 1, box, dense_strides(random_, box), 0));
            }
        }
        side_.tilings[tensor].push_back(first);
        side_.tilings[tensor + 1].push_back(second);
    }

private:
    std::uint32_t add(std::uint32_t tensor, const Box& box, const Strides& strides, std::uint64_t) {
        const auto file = std::uint32_t(random_() % files_);
        const auto item = std::uint64_t(itemsize(side_.tensors[tensor].dtype));
        const std::uint64_t length = std::uint64_t(volume(box)) * item;
        const std::uint64_t offset = region(file, length);
        side_.pieces.push_back({tensor, file, offset, box, strides, -1});
        return std::uint32_t(side_.pieces.size() - 1);
    }

    // Stores rows of both tensors alternately.
    void add_interleaved(std::uint32_t tensor, const Box& box, std::vector<std::uint32_t>& first,
                         std::vector<std::uint32_t>& second) {
        const auto item = std::uint64_t(itemsize(side_.tensors[tensor].dtype));
        const auto file = std::uint32_t(random_() % files_);
        Strides strides = row_major(sizes(box));
        const auto row = std::uint64_t(strides[0]) * item;
        strides[0] *= 2;
        const std::uint64_t offset = region(file, 2 * std::uint64_t(volume(box)) * item);
        side_.pieces.push_back({tensor, file, offset, box, strides, -1});
        first.push_back(std::uint32_t(side_.pieces.size() - 1));
        side_.pieces.push_back({tensor + 1, file, offset + row, box, strides, -1});
        second.push_back(std::uint32_t(side_.pieces.size() - 1));
    }

    std::uint64_t region(std::uint32_t file, std::uint64_t length) {
        const std::uint64_t offset = side_.files[file].size + random_() % 3 * 64;
        side_.files[file].size = offset + length;
        side_.regions.push_back({file, offset, length});
        return offset;
    }

    Random& random_;
    RandomSide& side_;
    std::uint32_t files_;
};

RandomSide random_side(Random& random, std::vector<Tensor> tensors, const char* prefix) {
    RandomSide side;
    side.tensors = std::move(tensors);
    Builder builder{random, side, std::uint32_t(1 + random() % 3)};
    for (std::uint32_t k = 0; k < side.tensors.size(); k += 2) {
        builder.add_twins(k);
        if (random() % 4 == 0) builder.add_twins(k);
    }
    for (std::size_t k = 0; k < side.files.size(); ++k) {
        side.files[k].path = fmt::format("{}{}/file{}", prefix, k % 2, k);
        side.files[k].size += random() % 100;
    }
    return side;
}

Moves naive_plan(Random& random, const RandomSide& source, const RandomSide& target) {
    Moves moves;
    for (std::uint32_t to = 0; to < target.pieces.size(); ++to) {
        const Piece& piece = target.pieces[to];
        const auto& tilings = source.tilings[piece.tensor];
        const std::size_t first = moves.size();
        for (std::uint32_t from : tilings[random() % tilings.size()]) {
            const Box box = intersect(piece.box, source.pieces[from].box);
            if (!empty(box)) moves.push_back({from, to, box});
        }
        std::ranges::sort(moves.begin() + std::ptrdiff_t(first), moves.end(), {}, &Move::box);
    }
    return moves;
}

Draft draft_of(Random& random, const RandomSide& target) {
    Draft draft;
    draft.files = target.files;
    const auto crcs = std::uint32_t(draft.files.size());
    draft.files.push_back({"crcs", 8 * target.regions.size()});
    for (const RandomSide::Region& region : target.regions) {
        const auto k = std::uint32_t(draft.pieces.size());
        draft.tensors.push_back({fmt::format("region{}", k), DType::u8, {Index(region.length)}});
        draft.pieces.push_back({k, region.file, region.offset, {{0, Index(region.length)}}, {1}, -1});
        if (random() % 4 != 0) draft.crc_slots.push_back({k, crcs, 8 * k});
        if (random() % 2 == 0) draft.fixed.push_back({crcs, 8 * k + 4, fmt::format("{:04}", k % 10000)});
    }
    std::ranges::shuffle(draft.crc_slots, random);
    return draft;
}

std::uint64_t place_in_file(const Piece& piece, const Box& box, Index element, int item) {
    Index offset = 0;
    for (int k = box.size() - 1; k >= 0; --k) {
        offset += (box[k].begin - piece.box[k].begin + element % box[k].size()) * piece.strides[k];
        element /= box[k].size();
    }
    return piece.offset + std::uint64_t(offset * item);
}

}  // namespace

RandomJob random_job(Random& random, bool large) {
    std::vector<Tensor> tensors;
    for (Index k = 1 + pick(random, 4); k > 0; --k) {
        Shape shape;
        for (Index axes = pick(random, 5); axes > 0; --axes) shape.push_back(1 + pick(random, 12));
        if (large && k == 1) shape = {200 + pick(random, 300), 500 + pick(random, 500)};
        if (large && k == 2) shape = {700000};
        const DType dtype = random() % 2 ? DType::f32 : DType::bf16;
        for (const char* twin : {"a", "b"}) tensors.push_back({fmt::format("t{}{}", k, twin), dtype, shape});
    }
    RandomJob job;
    job.source = random_side(random, tensors, "in");
    for (std::size_t k = 0; k < tensors.size(); k += 2) {
        if (random() % 4 == 0) tensors[k].dtype = tensors[k + 1].dtype = DType::f16;
    }
    job.target = random_side(random, tensors, "out");
    job.moves = naive_plan(random, job.source, job.target);
    job.draft = draft_of(random, job.target);
    for (const FileEntry& file : job.source.files) {
        job.content.emplace_back(file.size, '\0');
        for (char& byte : job.content.back()) byte = static_cast<char>(random());
    }
    // Values that are cast to f16 must fit: without the highest bit of their exponents they are below 2.
    for (const Piece& piece : job.source.pieces) {
        const int item = itemsize(job.source.tensors[piece.tensor].dtype);
        if (job.target.tensors[piece.tensor].dtype != DType::f16) continue;
        for (Index k = 0; k < volume(piece.box); ++k)
            job.content[piece.file][place_in_file(piece, piece.box, k, item) + std::uint64_t(item) - 1] &= '\xbf';
    }
    return job;
}

std::vector<std::string> expected_files(const RandomJob& job) {
    std::vector<std::string> files;
    for (const FileEntry& file : job.draft.files) files.emplace_back(file.size, '\0');
    for (const Move& move : job.moves) {
        const Piece &from = job.source.pieces[move.source], &to = job.target.pieces[move.target];
        const DType narrow = job.source.tensors[from.tensor].dtype, wide = job.target.tensors[to.tensor].dtype;
        for (Index k = 0; k < volume(move.box); ++k) {
            const char* source = &job.content[from.file][place_in_file(from, move.box, k, itemsize(narrow))];
            char* target = &files[to.file][place_in_file(to, move.box, k, itemsize(wide))];
            cast_elements({}, reinterpret_cast<const std::byte*>(source), {}, narrow,
                          reinterpret_cast<std::byte*>(target), {}, wide);
        }
    }
    for (const Draft::Fixed& fixed : job.draft.fixed) files[fixed.file].replace(fixed.offset, 4, fixed.bytes);
    for (const Draft::CrcSlot& slot : job.draft.crc_slots) {
        const Piece& piece = job.draft.pieces[slot.piece];
        const auto crc = std::uint32_t(
            crc32(0, reinterpret_cast<const Bytef*>(&files[piece.file][piece.offset]), uInt(volume(piece.box))));
        std::memcpy(&files[slot.file][slot.offset], &crc, sizeof crc);
    }
    return files;
}

}  // namespace tpx::test
