// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tpx::formats::safetensors {

/// A *.safetensors.index.json: which file contains which tensor. All files are relative paths that stay inside the
/// directory of the index.
struct WeightMap {
    struct Entry {
        std::string tensor;
        std::uint32_t file = 0;  ///< index into files
    };
    std::vector<std::filesystem::path> files;  ///< sorted, each once
    std::vector<Entry> entries;                ///< grouped by file; duplicate names are kept
    std::optional<std::uint64_t> total_size;   ///< as recorded in the index
};

/// Reads an index. Throws Error "PATH: ...".
WeightMap read_index(const std::filesystem::path& path);

/// For each tensor of one file, which is part of a larger tensor: where it starts in the larger tensor.
using SavedOffsets = std::unordered_map<std::string, Tuple<Index>>;

/// Reads the value of DCP_SHARDING_INFO. Throws Error "DCP_SHARDING_INFO: ...".
SavedOffsets parse_sharding_info(std::string_view json);

}  // namespace tpx::formats::safetensors
