// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace tpx::formats {

/// What `.metadata` tells. Pieces are sorted by tensor, then box, and have elements.
struct MetadataContent {
    std::span<const FileEntry> files;  ///< only their names are used: data files lie beside .metadata
    std::span<const Tensor> tensors;
    std::span<const Piece> pieces;           ///< offsets are those of the archives
    std::span<const std::uint64_t> lengths;  ///< of the archives, parallel to pieces
    std::span<const Object> objects;
    bool planner_data = true;                          ///< Megatron keeps none
    const torch::Value* known_planner_data = nullptr;  ///< paths of names that the source knew; may be null
};

/// The `.metadata` that torch's DCP reads: a pickle of protocol 2. The tensor properties have the five fields that
/// every release reads, not the strides that torch 2.15 adds, which earlier ones refuse and nothing needs.
std::string write_metadata(const MetadataContent& content);

}  // namespace tpx::formats
