// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/state/state_node.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// One value that a checkpoint contains in addition to its tensors.
struct StateItem {
    std::string file;  ///< relative to the checkpoint's directory
    std::string name;  ///< a key of the file's dict, or the name of an object; empty: the whole file
    StateNode node;
    std::string differs_from;  ///< not empty: `node` has only the differences from the same item in this file
};

/// All non-tensor state of `checkpoint` in the order of its files and keys: args, iteration, schedulers, RNG states,
/// param_groups, objects. Of the files that every rank writes, the first is returned completely, the others only where
/// they differ. Throws Error "FILE: ..." if a file or object is malformed or names what only an attack would name.
std::vector<StateItem> read_state(const Checkpoint& checkpoint);

}  // namespace tpx::formats
