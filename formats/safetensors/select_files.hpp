// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/safetensors/weight_map.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats::safetensors {

/// A file name NAME-00002-of-00005.safetensors, with prefix shard-00003- for the files of a rank.
struct PartName {
    std::optional<int> shard;  ///< 1-based
    std::string stem;          ///< NAME
    int part = 1;              ///< 1-based
    int parts = 1;
};

/// Parses a file name; unset if it has another form.
std::optional<PartName> parse_part_name(std::string_view name);

/// The files that make up a checkpoint.
struct Selection {
    std::filesystem::path directory;
    std::vector<std::filesystem::path> files;  ///< relative, sorted; those of the index, if there is one
    std::filesystem::path index;               ///< relative; empty if there is none
    WeightMap map;                             ///< of the index
    std::vector<std::string> notes;
    bool single_file = false;   ///< the path is one file with tensors
    bool consolidated = false;  ///< ignores sharded/, from whose parts PyTorch joined the files
};

/// Selects the files at `path`; see open_safetensors(). Throws Error if the choice is ambiguous, or if names or the
/// index show that a file is missing.
Selection select_files(const std::filesystem::path& path);

}  // namespace tpx::formats::safetensors
