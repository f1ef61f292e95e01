// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>

namespace tpx::formats {

/// Opens a PyTorch Distributed Checkpoint: a directory with `.metadata`, of any torch from 1.13 on. Every chunk becomes
/// a piece whose offset and archive length tell where its torch.save archive is; chunks without elements are dropped;
/// byte items become objects. Throws Error when chunks overlap or leave their tensor, when bytes are promised that no
/// file has or that two items share, when data is compressed or encrypted, and for paths that leave the directory.
///
/// Boxes that no file contains are no error here: `inspect` lists them with find_holes(), and whoever needs all the
/// values calls check_whole(), both of lib/core/coverage.hpp.
Checkpoint open_dcp(const std::filesystem::path& directory, MissingFiles missing = MissingFiles::refused);

/// How many ranks wrote files "__R_N.distcp" into `directory`, also those that had nothing to store.
int ranks_of_files(const std::filesystem::path& directory);

/// `.metadata` and one `__R_0.distcp` for each rank that holds something, with one archive for each piece that has
/// elements. The source's byte items are copied into rank 0's file when it is a DCP checkpoint, and its planner data is
/// kept; tensors that it does not know become top-level entries. Equal contents give equal bytes.
Draft draft_dcp(const Content& content);

}  // namespace tpx::formats
