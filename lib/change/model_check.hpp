// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/layout.hpp"
#include "lib/layout/model.hpp"

namespace tpx {

/// Throws Error (usage) when `model` cannot be: shapes that are no shapes, axes or layers out of range, types whose
/// elements are no whole bytes, more than 2^62 bytes.
void check_model(const ModelState& model);

/// Throws Error (usage) "LAYOUT: tensor 'NAME': ..." when `layout` cannot cut the tensors of `model` into equal parts,
/// or not deal its experts in equal blocks, with the nearest degrees that can. Layers are not looked at.
void check_cuts(const ModelState& model, const Layout& layout);

}  // namespace tpx
