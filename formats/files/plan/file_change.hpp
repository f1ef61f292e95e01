// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/plan/hdf5.hpp"
#include "formats/files/plan/plan_file.hpp"

namespace tpx::formats {

/// Writes the part of a plan file that describes a checkpoint: attributes, and the groups tensors, source_files,
/// target_files, source, target, held_before, held_after, cells and moves.
void write_checkpoint_plan(hdf5::Writer& file, const FileChange& content);

/// Reads this part. Checks only those indices that determine how many axes a row has; check_values() checks the rest.
FileChange read_checkpoint_plan(const hdf5::Reader& file);

}  // namespace tpx::formats
