// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/places.hpp"
#include "lib/layout/reading.hpp"

#include <set>
#include <string>

namespace tpx {

/// The settings, each as "KEY = VALUE" or as KEY if it is a list, that say whether the model whose tensors are in the
/// places of `model` has the canonical tensor `name` in `layer`: those that the first known alternative of its
/// [present] condition depends on. `reading` has the configuration of the model and the dialect of its framework.
std::set<std::string> deciding_settings(const Reading& reading, const Places& model, Index layer,
                                        const std::string& name);

}  // namespace tpx
