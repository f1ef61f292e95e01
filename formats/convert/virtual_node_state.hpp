// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// Checks the state of virtual nodes in `source`, tensors and objects "virtual_node_state.N.ANY", if the layout of
/// `target` has virtual nodes: throws Error if a virtual node lacks a value that others have, or if its number is not
/// less than vn. If the layout has no virtual nodes but files are split by holders, adds a note that every host gets
/// all of this state.
void check_virtual_node_state(const Source& source, const Target& target, std::vector<std::string>& notes);

}  // namespace tpx::formats
