// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/express.hpp"
#include "lib/layout/states.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace tpx {

/// Whether [present] says that the model of `source`, whose weights are `weights`, has a tensor in a layer under the
/// names of `dialect`. Nothing if the condition is unknown or missing.
std::optional<bool> is_present(const Reading& source, std::string_view dialect, const Occurrences& weights,
                               const std::string& tensor, int layer);

/// Handles tensors that may be tied to another tensor of their layer, such as attention values that are tied to the
/// keys. If `dialect` stores them together with others, those that `source` lacks become copies. If only `source`
/// stores them together with others, those that the model lacks under the names of `dialect` ([present]) are dropped;
/// dropped weights and masters go to `out.dropped_ties`. Throws Error if a tensor is missing that the configuration of
/// `source` does not tie, or if optimizer state of tied tensors cannot be stored.
void resolve_layer_ties(const Reading& source, const Dialect& dialect, States& states, ExpressedState& out);

}  // namespace tpx
