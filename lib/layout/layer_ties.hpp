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

/// Settles tensors of layers that may be tied to another tensor of their layer, as values that are the keys. If
/// `dialect` stores them together with others, tensors that `source` lacks become copies. If it stores them alone and
/// `source` does not, tensors that the model lacks under the names of `dialect` ([present]) are dropped; weights among
/// them go to `out.dropped_ties`. Throws Error when a tensor is missing that the configuration of `source` does not
/// tie, or when optimizer state of tied tensors cannot be stored.
void settle_layer_ties(const Reading& source, const Dialect& dialect, States& states, Expressed& out);

}  // namespace tpx
