// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tpx::formats {

/// A tensor of a model's state_dict().
struct StateDictEntry {
    std::string name;
    Shape shape;
    bool parameter = true;  ///< false: surely a buffer, or tied to an entry before it
};

/// The names of parameters 0, 1, ... of an optimizer's state_dict(), which only counts them, group after group:
/// parameters are numbered in the model's order, in one go, or matrices and vectors apart in two groups. `shapes` are
/// those of the state that numbers have. Empty unless exactly one such order has the right number of parameters and the
/// right shapes.
std::vector<std::string> parameters_by_number(std::span<const StateDictEntry> model,
                                              std::span<const std::vector<std::int64_t>> groups,
                                              const std::map<std::int64_t, Shape>& shapes);

}  // namespace tpx::formats
