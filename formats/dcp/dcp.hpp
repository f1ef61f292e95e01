// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>

namespace tpx::formats {

/// Opens a PyTorch Distributed Checkpoint: a directory with `.metadata`, from PyTorch 1.13 or later. Every chunk
/// becomes a piece with the offset and length of its torch.save archive; empty chunks are dropped; byte items become
/// objects. Throws Error if chunks overlap or exceed their tensor, if bytes are missing or shared by two items, if data
/// is compressed or encrypted, or if paths leave the directory.
///
/// Boxes that no file contains are not an error here: `inspect` lists them with find_holes(), and callers that need all
/// values call check_no_holes() (both in lib/core/coverage.hpp).
Checkpoint open_dcp(const std::filesystem::path& directory, MissingFiles missing = MissingFiles::refused);

/// The number of ranks that wrote files "__R_N.distcp" into `directory`: the highest rank plus one, including lower
/// ranks without files.
int ranks_of_files(const std::filesystem::path& directory);

/// Drafts `.metadata` and, for each rank with data, one `__R_0.distcp` with one archive for each nonempty piece. If the
/// source is a DCP checkpoint, its byte items are copied into rank 0's file and its planner data is kept; new tensors
/// become top-level entries. Equal contents produce equal bytes.
Draft draft_dcp(const Content& content);

}  // namespace tpx::formats
