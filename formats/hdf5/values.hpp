// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"

namespace tpx::formats::hdf5 {

/// Calls `add` for the attributes of plain HDF5 files that are not tpx's own, and for the iteration.
void add_attributes(const Checkpoint& checkpoint, const AddValue& add);

/// Adds to `notes` the attributes of groups, and the iteration, that the target does not store.
void note_dropped(const Source& source, const Target& target, bool renames, std::vector<std::string>& notes);

}  // namespace tpx::formats::hdf5
