// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace tpx::formats {

/// The content of a `.metadata` file. Pieces are sorted by tensor, then box, and are not empty.
struct MetadataContent {
    std::span<const FileEntry> files;  ///< only their names are used: data files are in the folder of .metadata
    std::span<const Tensor> tensors;
    std::span<const Piece> pieces;           ///< offsets are those of the archives
    std::span<const std::uint64_t> lengths;  ///< of the archives, parallel to pieces
    std::span<const Object> objects;
    bool planner_data = true;                          ///< false: write None, as Megatron does
    const torch::Value* known_planner_data = nullptr;  ///< the source's planner data, paths by name; may be null
    std::string save_id = {};                          ///< of StorageMeta; empty: None
};

/// The `.metadata` that torch's DCP reads: a pickle of protocol 2. The tensor properties have the five fields that
/// every release reads. They omit the strides that torch 2.15 adds: earlier releases reject them, and nothing needs
/// them.
std::string write_metadata(const MetadataContent& content);

}  // namespace tpx::formats
