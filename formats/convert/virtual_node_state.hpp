// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// Checks the state of virtual nodes in `source`, tensors and objects "virtual_nodes.N.ANY", if the layout of `target`
/// has virtual nodes: throws Error if a virtual node lacks a value that others have, or is not one of the layout's.
/// Adds to `notes` that all ranks get all of this state if the layout has no virtual nodes but files for each host.
void check_virtual_node_state(const Source& source, const Target& target, std::vector<std::string>& notes);

}  // namespace tpx::formats
