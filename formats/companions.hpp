// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// Whether `path`, links followed, lies in `directory`, or in the cache HUB/blobs that a HUB/snapshots/ID is made of.
bool stays_inside(const std::filesystem::path& path, const std::filesystem::path& directory);

/// How the note begins that names files which cannot be carried over.
inline constexpr std::string_view not_carried_over = "not carried over: ";

/// Fills `checkpoint.companions` with the files in `directory` that make a checkpoint usable: configuration, tokenizer,
/// model card, code. Hidden files, weights of any format, tpx's own files and the format's (`own`) are no companions.
/// Files over 256 MiB, links that lead nowhere or out of the directory (but into the blobs of a Hugging Face cache)
/// cannot be carried over; a note names them.
void find_companions(const std::filesystem::path& directory, Checkpoint& checkpoint,
                     std::initializer_list<std::string_view> own = {});

/// Fills config and config_json of `checkpoint` from `directory`/config.json when there is one. Values of
/// objects at the top are called "outer.inner", what lies deeper and lists are left out. Throws Error when it is no
/// JSON object.
void read_config(const std::filesystem::path& directory, Checkpoint& checkpoint);

/// Fills companions and config_json of `checkpoint` from its directory, where a format has a configuration of its own;
/// `own` are the names of the format's files.
void read_companions(Checkpoint& checkpoint, std::initializer_list<std::string_view> own);

/// Copies the companions of `source` into `folder` of a new checkpoint, but for files that it has already; if `only` is
/// not empty, just the one of that name.
void copy_companions(const Checkpoint& source, const std::filesystem::path& folder, Draft& draft,
                     const std::filesystem::path& only = {});

}  // namespace tpx::formats
