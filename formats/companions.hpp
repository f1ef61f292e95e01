// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>
#include <initializer_list>
#include <string_view>
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

/// Fills companions and config_json of `checkpoint` from its directory, where a format has a configuration of its own;
/// `own` are the names of the format's files.
void read_companions(Checkpoint& checkpoint, std::initializer_list<std::string_view> own);

/// Copies the companions of `source` into `folder` of a new checkpoint, but for files that it has already.
void copy_companions(const Checkpoint& source, const std::filesystem::path& folder, Draft& draft);

}  // namespace tpx::formats
