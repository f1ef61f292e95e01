// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/state/adam.hpp"

#include <filesystem>
#include <optional>

namespace tpx::formats::deepspeed {

/// The settings of every parameter of the step at `path`, ZeRO's or universal, by the name of its exp_avg
/// ("PARAMETER/exp_avg"). Nothing when param_groups are not kept (elastic_checkpoint) or are none of Adam's. Throws
/// Error when groups of parameters have made different numbers of steps.
std::optional<Adam> adam_of_step(const std::filesystem::path& path);

}  // namespace tpx::formats::deepspeed
