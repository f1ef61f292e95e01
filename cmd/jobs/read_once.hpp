// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <filesystem>
#include <functional>

namespace tpx::cli {

/// Runs `body`, which opens the checkpoint at `path` and may read other files, first on rank 0, then on the other
/// ranks. On the other ranks, `body` gets the bytes that rank 0 read, and reads only files and bytes that rank 0 did
/// not read. So the metadata of a checkpoint is read once, for any number of ranks. `path` may differ between
/// ranks; `body` must not communicate. If rank 0 fails, all ranks fail with its error. Throws an mpi::AgreedError.
/// Collective.
void read_once(const mpi::Comm& comm, const std::filesystem::path& path, const std::function<void()>& body);

}  // namespace tpx::cli
