// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/safetensors/index.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats::safetensors {

/// NAME-00002-of-00005.safetensors, with shard-00003- in front for the files of a rank.
struct PartName {
    std::optional<int> shard;  ///< 1-based
    std::string stem;          ///< NAME
    int part = 1;              ///< 1-based
    int parts = 1;
};

/// Takes the name of a file apart; nothing when it has another form.
std::optional<PartName> parse_part_name(std::string_view name);

/// The files that make up a checkpoint.
struct Selection {
    std::filesystem::path directory;
    std::vector<std::filesystem::path> files;  ///< relative, sorted; those of the index when there is one
    std::filesystem::path index;               ///< relative; empty when there is none
    WeightMap map;                             ///< of the index
    std::vector<std::string> notes;
    bool single_file = false;   ///< the user named one file of tensors
    bool consolidated = false;  ///< the parts that the files were joined from are left aside
};

/// Chooses among what `path` holds; see open_safetensors. Throws Error when the choice is not clear, or when names or
/// the index tell that a file is missing.
Selection select_files(const std::filesystem::path& path);

}  // namespace tpx::formats::safetensors
