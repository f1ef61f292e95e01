// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <optional>
#include <string>
#include <vector>

namespace tpx::formats {

/// What `settings` say of an optimizer where a checkpoint tells nothing: lr, weight_decay (of matrices), adam_beta1,
/// adam_beta2 and adam_eps, with the step that `source` has as a tensor, or else that of `settings`, or its iteration,
/// which a line in `notes` tells. Nothing without lr. Throws Error (usage) for what is no number, and for a step that
/// nothing tells.
std::optional<Adam> given_adam(const Source& source, const Config& settings, std::vector<std::string>& notes);

}  // namespace tpx::formats
