// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/places.hpp"
#include "lib/layout/reading.hpp"

#include <set>
#include <string>

namespace tpx {

/// The settings that decide whether a model has the canonical tensor `name` in `layer`: those in the first known
/// alternative of its [present] condition, each as "KEY = VALUE" or, if it is a list, as KEY. `model` contains the
/// model's tensors, `reading` its configuration and the dialect of its framework.
std::set<std::string> deciding_settings(const Reading& reading, const Places& model, Index layer,
                                        const std::string& name);

}  // namespace tpx
