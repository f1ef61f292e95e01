// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <string>

namespace tpx {

/// Broadcasts bytes from rank 0, compressed with zlib; metadata of checkpoints is highly repetitive. Throws an
/// mpi::AgreedError if a rank has too little memory. Returns the number of bytes that each other rank receives.
/// Collective.
std::uint64_t broadcast_compressed(const mpi::Comm& comm, std::string& bytes);

/// The number of bytes that broadcast_compressed() sends to a rank for `bytes`. Throws Error.
std::uint64_t compressed_size(const std::string& bytes);

}  // namespace tpx
