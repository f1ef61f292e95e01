// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tpx::formats {

/// What of DeepSpeed's stands at a path: the folder of one step, and where companions are looked for.
struct DeepSpeedStep {
    std::filesystem::path directory;  ///< the path itself
    std::filesystem::path step;       ///< the path itself, or the folder that `latest` names in it
    bool universal = false;
    std::string other;  ///< another step that the root names too: `latest_universal` beside `latest`
};

/// Nothing (an empty step) when it is not DeepSpeed's. Throws Error when `latest` names what is not there.
DeepSpeedStep find_deepspeed(const std::filesystem::path& path);

/// A checkpoint of DeepSpeed's engine: ZeRO 0 to 3, pipelines, tensor parallelism, experts; or a universal one. Weights
/// have the module's names, master weights and moments are NAME/fp32, NAME/exp_avg and so on. Pieces are where the
/// ranks' flat partitions have them. Throws Error "FILE: ..." when a file is missing or malformed.
Checkpoint open_deepspeed(const std::filesystem::path& path);

/// A universal checkpoint of a DeepSpeed one, as ds_to_universal makes it but for the copies of what is no parameter of
/// the optimizer, which nothing reads. Adds to `notes` what a person should know. Throws Error when the content's
/// source is not DeepSpeed's.
Draft draft_universal(const Content& content, std::vector<std::string>& notes);

/// A universal checkpoint of another framework's state, of which the content has weights, NAME/fp32, NAME/exp_avg and
/// NAME/exp_avg_sq, and `adam`: for engines of ZeRO 1 and 2 and BF16_Optimizer, or with zero=3 in the content's layout
/// for those of ZeRO 3. Groups of parameters are those of equal settings, decaying ones first. Adds to `notes` what a
/// person should know. Throws Error (exit 2) where there is no optimizer state.
Draft make_universal(const Content& content, std::vector<std::string>& notes);

/// A DeepSpeed checkpoint of the content's layout, with its ZeRO stage (0: the source's): settings are those of its
/// source, which must be DeepSpeed's or universal; tensors and partitions are cut anew. The content's args may tell
/// what pads a vocabulary (make_vocab_size_divisible_by). Adds to `notes` what a person should know. Throws Error (exit
/// 2) for layouts that cannot be made.
Draft draft_deepspeed(const Content& content, std::vector<std::string>& notes);

}  // namespace tpx::formats
