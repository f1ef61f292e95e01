// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/model_parameters.hpp"

namespace tpx::formats::megatron {

/// How the model that Megatron builds from args made for `expressed` differs from `expressed`; `config` contains the
/// source's settings.
ParameterDifference model_difference(const ExpressedState& expressed, const Config& config);

/// Throws Error if the model that Megatron builds from args made for `expressed` would not compute the same as the
/// source's model, whose settings are in `config`, or has different parameters.
void check_model(const ExpressedState& expressed, const Config& config);

}  // namespace tpx::formats::megatron
