// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>
#include <vector>

namespace tpx::formats {

/// The files beside the weights that make a checkpoint usable: configuration, tokenizer, model card, code. Names
/// relative to `directory`, sorted. Hidden files, weights of any format, tpx's own files, files over 256 MiB, and links
/// that lead out of the directory (but into the blobs of a Hugging Face cache) are left out.
std::vector<std::filesystem::path> find_companions(const std::filesystem::path& directory);

/// Fills config and config_json of `checkpoint` from `directory`/config.json when there is one. Values of
/// objects at the top are called "outer.inner", what lies deeper and lists are left out. Throws Error when it is no
/// JSON object.
void read_config(const std::filesystem::path& directory, Checkpoint& checkpoint);

}  // namespace tpx::formats
