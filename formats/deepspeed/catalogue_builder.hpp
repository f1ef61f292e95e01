// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/universal_info.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/state/role.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tpx::formats::deepspeed {

/// Adds to `pieces` the flat elements `range`, of `itemsize` bytes each, of a rank's slice of shape `local`, whose
/// `blocks` are parts of the whole tensor. The elements are stored consecutively at the file and offset of `like`,
/// which also has tensor and rank.
void append_range(std::vector<Piece>& pieces, const Piece& like, int itemsize, Interval range, const Shape& local,
                  std::span<const SliceBlock> blocks);

/// Collects tensors and pieces of a checkpoint.
class CatalogueBuilder {
public:
    /// Paths in the catalogue are relative to `directory`.
    explicit CatalogueBuilder(std::filesystem::path directory);

    std::uint32_t file(const std::filesystem::path& path);

    /// The number of tensor `name`, which is added if it is new. Throws Error if it is known with another dtype or
    /// shape.
    std::uint32_t tensor(const std::string& name, Role role, DType dtype, const Shape& shape);

    bool has(const std::string& name) const { return numbers_.contains(name); }

    /// Adds the data at `offset` of a file: the flat elements `range` of a rank's slice, whose `blocks` are parts of
    /// the whole tensor. `local` is the shape of the slice.
    void add_range(std::uint32_t tensor, std::uint32_t file, std::uint64_t offset, Interval range, const Shape& local,
                   std::span<const SliceBlock> blocks, int rank);

    /// Adds a rank's slice, stored as described by `stored`.
    void add_slice(std::uint32_t tensor, std::uint32_t file, const torch::StoredTensor& stored,
                   std::span<const SliceBlock> blocks, int rank);

    /// The catalogue with sorted pieces; roles() has a role for each tensor.
    Catalogue finish();
    const std::vector<Role>& roles() const { return roles_; }

private:
    Catalogue catalogue_;
    std::vector<Role> roles_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
    std::map<std::filesystem::path, std::uint32_t> files_;
};

/// `value` as a tensor whose bytes can be copied unchanged. Throws Error for anything else.
torch::StoredTensor plain_tensor(const torch::Archive& archive, torch::Value value);

/// The shape in a torch.Size, tuple or list. Throws Error for invalid sizes.
Shape shape_of(torch::Value value);

}  // namespace tpx::formats::deepspeed
