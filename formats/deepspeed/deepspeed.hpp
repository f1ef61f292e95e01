// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tpx::formats {

/// A DeepSpeed checkpoint at a path: the folder of one step, and the folder with companions.
struct DeepSpeedStep {
    std::filesystem::path directory;  ///< the path itself; companions are here
    std::filesystem::path step;       ///< the path itself, or the folder that `latest` names in it
    bool universal = false;
    std::string other;  ///< another step that the root also names: by `latest_universal` beside `latest`
};

/// Finds a DeepSpeed checkpoint; `step` is empty if there is none, or if `latest` names a missing folder.
DeepSpeedStep find_deepspeed(const std::filesystem::path& path);

/// A checkpoint of DeepSpeed's engine: ZeRO 0 to 3, pipelines, tensor parallelism, experts; or a universal one. Weights
/// have the module's names; master weights and moments are named NAME/fp32, NAME/exp_avg and so on. Their pieces point
/// into the ranks' flat partitions. Throws Error "FILE: ..." if a file is missing or malformed.
Checkpoint open_deepspeed(const std::filesystem::path& path);

/// A universal checkpoint of a DeepSpeed one, as ds_to_universal creates it but without copies of tensors that are not
/// optimizer parameters, which nothing reads. Adds to `notes` what the user should know. Throws Error if the content's
/// source is not DeepSpeed's.
Draft draft_universal(const Content& content, std::vector<std::string>& notes);

/// A universal checkpoint of another framework's state. The content has weights, NAME/fp32, NAME/exp_avg,
/// NAME/exp_avg_sq, and `adam`. The new checkpoint is for ZeRO 1 and 2 engines and BF16_Optimizer or, with zero=3 in
/// the content's layout, for ZeRO 3 engines. Parameters with equal settings form a group; groups with the highest
/// weight decay come first. Adds to `notes` what the user should know. Throws Error (exit 2) if there is no optimizer
/// state.
Draft make_universal(const Content& content, std::vector<std::string>& notes);

/// A DeepSpeed checkpoint of the content's layout, with its ZeRO stage (0: the source's). Settings come from the
/// source, which must be DeepSpeed's or universal; tensors and partitions are resharded. The content's args may have
/// the vocabulary padding (make_vocab_size_divisible_by). Adds to `notes` what the user should know. Throws Error (exit
/// 2) for impossible layouts.
Draft draft_deepspeed(const Content& content, std::vector<std::string>& notes);

}  // namespace tpx::formats
