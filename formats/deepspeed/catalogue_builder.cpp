// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/catalogue_builder.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/flat.hpp"

#include <algorithm>
#include <tuple>

namespace tpx::formats::deepspeed {

CatalogueBuilder::CatalogueBuilder(std::filesystem::path directory) { catalogue_.directory = std::move(directory); }

std::uint32_t CatalogueBuilder::file(const std::filesystem::path& path) {
    const auto [found, added] = files_.emplace(path, static_cast<std::uint32_t>(catalogue_.files.size()));
    if (added) catalogue_.files.push_back({path.lexically_relative(catalogue_.directory), size_of_file(path)});
    return found->second;
}

std::uint32_t CatalogueBuilder::tensor(const std::string& name, Role role, DType dtype, const Shape& shape) {
    const auto [found, added] = numbers_.emplace(name, static_cast<std::uint32_t>(catalogue_.tensors.size()));
    if (added) {
        catalogue_.tensors.push_back({name, dtype, shape});
        roles_.push_back(role);
    }
    const Tensor& known = catalogue_.tensors[found->second];
    if (known.dtype != dtype || known.shape != shape)
        throw failure("tensor '{}': is {} {} here and {} {} elsewhere", name, tpx::name(dtype), to_string(shape),
                      tpx::name(known.dtype), to_string(known.shape));
    return found->second;
}

void append_range(std::vector<Piece>& pieces, const Piece& like, int itemsize, Interval range, const Shape& local,
                  std::span<const SliceBlock> blocks) {
    for (const Box& box : boxes_of_range(local, range)) {
        for (const SliceBlock& block : blocks) {
            Box shared = intersect(box, block.local);
            if (empty(shared)) continue;
            Piece piece = like;
            const Index first = flat_position(local, first_of(shared)) - range.begin;
            piece.offset += static_cast<std::uint64_t>(first) * static_cast<std::uint64_t>(itemsize);
            for (int k = 0; k < shared.size(); ++k) shared[k] = shift(shared[k], block.shift[k]);
            piece.box = shared;
            piece.strides = row_major(local);
            pieces.push_back(piece);
        }
    }
}

void CatalogueBuilder::add_range(std::uint32_t tensor, std::uint32_t file, std::uint64_t offset, Interval range,
                                 const Shape& local, std::span<const SliceBlock> blocks, int rank) {
    append_range(catalogue_.pieces, {.tensor = tensor, .file = file, .offset = offset, .rank = rank},
                 itemsize(catalogue_.tensors[tensor].dtype), range, local, blocks);
}

void CatalogueBuilder::add_slice(std::uint32_t tensor, std::uint32_t file, const torch::StoredTensor& stored,
                                 std::span<const SliceBlock> blocks, int rank) {
    const auto size = static_cast<std::uint64_t>(itemsize(stored.dtype));
    for (const SliceBlock& block : blocks) {
        if (empty(block.local)) continue;
        Piece piece{.tensor = tensor,
                    .file = file,
                    .offset = stored.offset,
                    .box = block.local,
                    .strides = stored.strides,
                    .rank = rank};
        for (int k = 0; k < piece.box.size(); ++k) {
            piece.offset += static_cast<std::uint64_t>(block.local[k].begin * stored.strides[k]) * size;
            piece.box[k] = shift(block.local[k], block.shift[k]);
        }
        catalogue_.pieces.push_back(piece);
    }
}

Catalogue CatalogueBuilder::finish() {
    std::ranges::sort(catalogue_.pieces, [](const Piece& a, const Piece& b) {
        return std::tie(a.tensor, a.box, a.rank) < std::tie(b.tensor, b.box, b.rank);
    });
    return std::move(catalogue_);
}

torch::StoredTensor plain_tensor(const torch::Archive& archive, torch::Value value) {
    auto tensor = archive.tensor(value);
    if (!tensor) throw failure("expected a tensor, found {}", value.describe());
    if (tensor->compressed || tensor->conjugated || tensor->negated || archive.big_endian())
        throw failure("its elements are {}, which cannot be copied unchanged", tensor->compressed     ? "compressed"
                                                                               : archive.big_endian() ? "big-endian"
                                                                               : tensor->conjugated   ? "conjugated"
                                                                                                      : "negated");
    return *tensor;
}

Shape shape_of(torch::Value value) {
    constexpr Index largest = Index{1} << 40;
    Shape shape;
    for (const torch::Value item : value.items()) {
        if (shape.size() == max_rank) throw failure("{} axes, at most {} can be read", value.items().size(), max_rank);
        const Index size = item.as_int();
        if (size < 0 || size > largest) throw failure("invalid axis size {}", size);
        shape.push_back(size);
    }
    if (checked_volume(shape) < 0) throw failure("shape {} is too large", to_string(shape));
    return shape;
}

}  // namespace tpx::formats::deepspeed
