// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <filesystem>
#include <functional>

namespace tpx::cli {

/// Runs `body`, which opens the checkpoint at `path` and may read other files, on rank 0, then on the other ranks.
/// There it gets what rank 0 read, and reads only what rank 0 did not, so that the metadata of a checkpoint is read
/// once however many ranks there are. `path` may have another name on each rank; `body` must not communicate. An error
/// of rank 0 is that of all ranks. Throws an mpi::AgreedError. Collective.
void read_once(const mpi::Comm& comm, const std::filesystem::path& path, const std::function<void()>& body);

}  // namespace tpx::cli
