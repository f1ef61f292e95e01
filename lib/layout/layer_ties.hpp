// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/express.hpp"
#include "lib/layout/states.hpp"

namespace tpx {

/// Settles tensors of layers that may be tied to another tensor of their layer, as values that are the keys. If
/// `dialect` stores them together with others, tensors that `source` lacks become copies. If it stores them alone and
/// `source` does not, tensors that the model lacks under the names of `dialect` ([present]) are dropped.
void settle_layer_ties(const Reading& source, const Dialect& dialect, States& states, Expressed& out);

}  // namespace tpx
