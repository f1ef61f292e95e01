// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/layout.hpp"
#include "lib/layout/model_state.hpp"

namespace tpx {

/// Throws Error (usage) if `model` is impossible: invalid shapes, axes or layers out of range, dtypes whose elements
/// are not whole bytes, or more than 2^62 bytes.
void check_model(const ModelState& model);

/// Throws Error (usage) "LAYOUT: tensor 'NAME': ..." if `layout` cannot split the tensors of `model` into equal parts,
/// or its experts into equal blocks; the message suggests the nearest degrees that can. Does not check layers.
void check_cuts(const ModelState& model, const Layout& layout);

}  // namespace tpx
