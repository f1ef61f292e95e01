// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <optional>
#include <string>
#include <vector>

namespace tpx::formats {

/// Adam settings from `settings`, for a checkpoint that records none: lr, weight_decay (of matrices), adam_beta1,
/// adam_beta2 and adam_eps. The step comes from tensors of `source`, whose payloads are located, else from `settings`,
/// else from the iteration, with a note. Unset without lr. Throws Error (usage) if a setting is not a number or the
/// step is unknown.
std::optional<Adam> adam_from_settings(Source& source, const Config& settings, std::vector<std::string>& notes);

}  // namespace tpx::formats
