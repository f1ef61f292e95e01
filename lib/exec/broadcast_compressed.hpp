// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <string>

namespace tpx {

/// Gives every rank the bytes of rank 0, which travel compressed: for metadata of checkpoints, which repeats itself so
/// much that few of its bytes remain. Throws Error on each rank that has no memory for them.
void broadcast_compressed(const mpi::Comm& comm, std::string& bytes);

}  // namespace tpx
