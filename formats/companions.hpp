// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// Whether `path`, after following links, is in `directory` or, if that is HUB/snapshots/ID, in the cache HUB/blobs.
bool stays_inside(const std::filesystem::path& path, const std::filesystem::path& directory);

/// The arguments of transformers' Trainer: a torch.save file without tensors, in folders of any format.
inline constexpr std::string_view trainer_arguments = "training_args.bin";

/// The start of a note that lists files that cannot be carried over.
inline constexpr std::string_view not_carried_over = "not carried over: ";

/// Fills `checkpoint.companions` with the files in `directory` that make a checkpoint usable: configuration, tokenizer,
/// model card, code. Hidden files, weights of any format, tpx's own files and the format's (`own`) are not companions.
/// Folders, files over 256 MiB, broken links and links out of the directory (except into the blobs of a Hugging Face
/// cache) cannot be carried over; a note names them.
void find_companions(const std::filesystem::path& directory, Checkpoint& checkpoint,
                     std::initializer_list<std::string_view> own = {});

/// Fills config, as parse_config_json() does, and config_json of `checkpoint` from `directory`/config.json if it
/// exists. Throws Error if the file is not a JSON object.
void read_config(const std::filesystem::path& directory, Checkpoint& checkpoint);

/// Fills companions and config_json of `checkpoint` from its directory, but not `config`: for formats with a
/// configuration of their own. `own` are the names of the format's files.
void read_companions(Checkpoint& checkpoint, std::initializer_list<std::string_view> own);

/// Adds the companions of `source` to `draft`, in `folder`, except files that it already has; if `only` is not empty,
/// just the companion of that name.
void copy_companions(const Checkpoint& source, const std::filesystem::path& folder, Draft& draft,
                     const std::filesystem::path& only = {});

}  // namespace tpx::formats
