// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/state/adam.hpp"

#include <filesystem>
#include <optional>

namespace tpx::formats::deepspeed {

/// The settings of every parameter of the step at `path`, ZeRO's or universal, by the name of its exp_avg
/// ("PARAMETER/exp_avg"). Unset if param_groups are not stored (elastic_checkpoint) or are not Adam's. Throws Error if
/// parameter groups are at different steps.
std::optional<Adam> adam_of_step(const std::filesystem::path& path);

}  // namespace tpx::formats::deepspeed
