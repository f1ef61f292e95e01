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
    bool parameter = true;  ///< false: certainly a buffer, or tied to an earlier entry
};

/// Records the shape of a state tensor of parameter `number`. The largest shape of its state is the parameter's own.
void note_shape(std::map<std::int64_t, Shape>& shapes, std::int64_t number, const Shape& shape);

/// The names of parameters 0, 1, ... of an optimizer's state_dict(), which only numbers them, group after group and in
/// each group in the model's order. `shapes` are those of parameters with state. Several groups must not share a shape
/// (groups of matrices and of vectors do not), because a parameter of that shape could belong to either. Frozen
/// parameters have no number; they are skipped if all numbers have state and none has their shape. Returns an empty
/// list if shapes or the number of parameters do not determine the names.
std::vector<std::string> parameters_by_number(std::span<const StateDictEntry> model,
                                              std::span<const std::vector<std::int64_t>> groups,
                                              const std::map<std::int64_t, Shape>& shapes);

}  // namespace tpx::formats
