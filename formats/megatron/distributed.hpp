// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/layout/express.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What all backends of Megatron-core's dist_checkpointing have in common: a folder iter_NNNNNNN with metadata.json,
// which names the backend, and with common.pt.
namespace tpx::formats::megatron {

/// Whether `format` is a backend of dist_checkpointing: whole tensors under Megatron's names, ShardedObjects and a
/// common state.
bool is_distributed(Format format);

/// Throws Error if the state of a model cannot be stored in this layout by Megatron.
void check_model_layout(const Layout& layout);

/// Driver::fit_states: makes the states those of the plain or the distributed optimizer, as `config` asks.
void fit_states(Expressed& expressed, const Config& config, std::optional<DType> dtype,
                std::vector<std::string>& notes);

/// The sharded_backend in metadata.json of `folder`; empty without the file or the key. Throws Error if the file is not
/// JSON or the value is not a string.
std::string sharded_backend(const std::filesystem::path& folder);

/// `directory_or_root`, or the folder of the iteration that the tracker file in it names. Throws Error if that folder
/// lacks metadata.json, which Megatron writes last, or if metadata.json names another backend than `backend`.
std::filesystem::path distributed_folder(const std::filesystem::path& directory_or_root, std::string_view backend);

/// Reads the common state of `checkpoint`, whose tensors and objects are known: iteration, args, companions. Throws
/// Error if there is none.
void read_common_state(Checkpoint& checkpoint);

/// The iteration of a new checkpoint: the source's, or 1 if the source has none or 0, because Megatron refuses 0.
std::int64_t new_iteration(const Content& content);

/// The folder of the new checkpoint's iteration: "iter_0000010".
std::filesystem::path new_folder(const Content& content);

/// Adds common.pt, metadata.json of `backend` and the tracker file to `draft`. The common state is the source's with
/// `content.args` set in its args; without one it is args, checkpoint_version 3.0 and the iteration.
void add_common_files(Draft& draft, const Content& content, std::string_view backend);

}  // namespace tpx::formats::megatron
