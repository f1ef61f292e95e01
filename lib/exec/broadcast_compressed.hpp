// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <string>

namespace tpx {

/// Broadcasts bytes from rank 0, compressed with zlib; metadata of checkpoints is highly repetitive. Throws an
/// mpi::AgreedError if a rank has too little memory. Collective.
void broadcast_compressed(const mpi::Comm& comm, std::string& bytes);

}  // namespace tpx
