// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What all backends of Megatron-core's dist_checkpointing have in common: a folder iter_NNNNNNN with metadata.json,
// which names the backend, and with common.pt.
namespace tpx::formats::megatron {

/// The sharded_backend in metadata.json of `folder`; empty without the file or the key. Throws Error if the file is not
/// JSON or the value is not a string.
std::string sharded_backend(const std::filesystem::path& folder);

/// `directory_or_root`, or the folder of the iteration that the tracker file in it names. Throws Error if that folder
/// lacks metadata.json, which Megatron writes last, or if metadata.json names another backend than `backend`.
std::filesystem::path distributed_folder(const std::filesystem::path& directory_or_root, std::string_view backend);

/// Reads iteration, args and companions of `checkpoint`, whose tensors and objects are already read. Throws Error if
/// there is no common state.
void read_common_state(Checkpoint& checkpoint);

/// The iteration of a new checkpoint: the source's, or 1 if the source has none or 0, because Megatron rejects 0.
std::int64_t new_iteration(const Content& content);

/// The folder of the new checkpoint's iteration: "iter_0000010".
std::filesystem::path new_folder(const Content& content);

/// Adds common.pt, metadata.json of `backend` and the tracker file to `draft`. The common state is the source's with
/// `content.args` set in its args. If the source has none, it consists of args, checkpoint_version 3.0 and the
/// iteration.
void add_common_files(Draft& draft, const Content& content, std::string_view backend);

}  // namespace tpx::formats::megatron
