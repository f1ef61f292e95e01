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

/// Notes the shape of a tensor of state of the parameter `number`: the largest is the parameter's own.
void note_shape(std::map<std::int64_t, Shape>& shapes, std::int64_t number, const Shape& shape);

/// The names of parameters 0, 1, ... of an optimizer's state_dict(), which only counts them, group after group: in each
/// group they stand in the model's order. `shapes` are those of the state that numbers have. Of several groups each
/// must have shapes of its own, as groups of matrices and of vectors do: equal shapes in two groups could be either's.
/// Frozen parameters, which have no number, are passed over where all numbers have state and none of their shape.
/// Empty when that, the number of parameters or a shape leaves it open.
std::vector<std::string> parameters_by_number(std::span<const StateDictEntry> model,
                                              std::span<const std::vector<std::int64_t>> groups,
                                              const std::map<std::int64_t, Shape>& shapes);

}  // namespace tpx::formats
