// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "formats/state/rank_settings.hpp"

#include <filesystem>

namespace tpx::formats::deepspeed {

/// Checks values of the optimizer file `path` with content `root`, of model-parallel rank `mp`, that must be equal on
/// all ranks: DeepSpeed's version and settings, and the kinds and steps of optimizer state. Parameter groups may differ
/// between model-parallel ranks. Throws Error as RankSettings does.
void compare_optimizer_settings(RankSettings& settings, const std::filesystem::path& path, torch::Value root, int mp);

}  // namespace tpx::formats::deepspeed
