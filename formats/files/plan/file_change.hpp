// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/plan/hdf5.hpp"
#include "formats/files/plan/plan_file.hpp"

namespace tpx::formats {

/// The part of a plan file that is about a checkpoint: attributes, and the groups tensors, source_files, target_files,
/// source, target, held_before, held_after, cells and moves.
void write_checkpoint_plan(hdf5::Writer& file, const FileChange& content);

/// Reads it. Of indices only those are checked that tell how many axes a row has; check_values looks at the rest.
FileChange read_checkpoint_plan(const hdf5::Reader& file);

}  // namespace tpx::formats
