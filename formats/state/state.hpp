// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/state/node.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// One thing that a checkpoint keeps beside its tensors.
struct StateItem {
    std::string file;  ///< relative to the checkpoint's directory
    std::string name;  ///< a key of the file's dict, or the name of an object; empty: all that the file holds
    StateNode node;
    std::string unlike;  ///< not empty: only what differs from the item of this name in this file is told
};

/// All non-tensor state of `checkpoint` in the order of its files and keys: args, iteration, schedulers, RNG states,
/// param_groups, byte entries. Of files that every rank writes, the first is told whole and the others where they
/// differ. Throws Error "FILE: ..." when a file or object is malformed or names what only an attack would name.
std::vector<StateItem> read_state(const Checkpoint& checkpoint);

}  // namespace tpx::formats
