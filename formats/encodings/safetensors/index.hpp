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

/// A *.safetensors.index.json: which file holds which tensor. All files are relative paths that stay inside the
/// directory of the index.
struct WeightMap {
    struct Entry {
        std::string tensor;
        std::uint32_t file = 0;  ///< index into files
    };
    std::vector<std::filesystem::path> files;  ///< sorted, each once
    std::vector<Entry> entries;                ///< file after file; a name that appears twice does so here, too
    std::optional<std::uint64_t> total_size;   ///< what the index says it is
};

/// Reads an index. Throws Error "PATH: ...".
WeightMap read_index(const std::filesystem::path& path);

/// Where in its whole tensor each tensor of one file starts.
using SavedOffsets = std::unordered_map<std::string, Tuple<Index>>;

/// Reads the value of DCP_SHARDING_INFO. Throws Error "DCP_SHARDING_INFO: ...".
SavedOffsets parse_sharding_info(std::string_view json);

}  // namespace tpx::formats::safetensors
