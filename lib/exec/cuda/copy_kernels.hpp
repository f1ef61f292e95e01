// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/device/chunk_crc.hpp"
#include "lib/exec/device/strided_copy.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tpx::cuda {

/// Threads of one block.
inline constexpr std::uint32_t block_threads = 256;

/// Starts the kernel for copies that keep the type, and the one for copies that change it, with one block for each of
/// `tiles` tiles. `copies` are in memory that the GPU of `stream` reaches. Returns what the launch reports.
cudaError_t launch_copies(const StridedCopy* copies, std::uint32_t count, std::uint32_t tiles, cudaStream_t stream);
cudaError_t launch_casts(const StridedCopy* copies, std::uint32_t count, std::uint32_t tiles, cudaStream_t stream);

/// Starts the kernel that computes `crcs` of `count` chunks, with one thread for each. Both are in memory that the GPU
/// of `stream` reaches. Returns what the launch reports.
cudaError_t launch_crcs(const CrcChunk* chunks, std::uint32_t count, std::uint32_t* crcs, cudaStream_t stream);

}  // namespace tpx::cuda
