// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/conversion.hpp"

#include <optional>

namespace tpx::formats {

/// What `settings` say of an optimizer where a checkpoint tells nothing: lr, weight_decay (of matrices), adam_beta1,
/// adam_beta2 and adam_eps, with the step that `source` has as a tensor, or its iteration. Nothing without lr. Throws
/// Error (usage) for what is no number.
std::optional<Adam> given_adam(const Source& source, const Config& settings);

}  // namespace tpx::formats
