// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/model_parameters.hpp"

namespace tpx::formats::megatron {

/// How the model that Megatron builds from args made for `expressed` differs from it; `config` has the settings of the
/// source.
ParameterDifference model_difference(const Expressed& expressed, const Config& config);

/// Throws Error when the model that Megatron builds from args made for `expressed` would compute something else than
/// the model of the source, whose settings are in `config`, or has other parameters.
void check_model(const Expressed& expressed, const Config& config);

}  // namespace tpx::formats::megatron
