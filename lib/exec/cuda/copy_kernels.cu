// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/cuda/copy_kernels.hpp"

#include <cuda_runtime.h>

namespace tpx::cuda {

extern "C" {

__global__ void __launch_bounds__(block_threads) tpx_copy_items(const StridedCopy* copies, std::uint32_t count) {
    run_tile<copy_items>(copies, count, blockIdx.x, threadIdx.x, blockDim.x);
}

__global__ void __launch_bounds__(block_threads) tpx_cast_items(const StridedCopy* copies, std::uint32_t count) {
    run_tile<cast_items>(copies, count, blockIdx.x, threadIdx.x, blockDim.x);
}

__global__ void __launch_bounds__(block_threads)
    tpx_chunk_crcs(const CrcChunk* chunks, std::uint32_t count, std::uint32_t* crcs) {
    const std::uint32_t k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < count) crcs[k] = chunk_crc(chunks[k]);
}

}  // extern "C"

cudaError_t launch_copies(const StridedCopy* copies, std::uint32_t count, std::uint32_t tiles, cudaStream_t stream) {
    tpx_copy_items<<<tiles, block_threads, 0, stream>>>(copies, count);
    return cudaGetLastError();
}

cudaError_t launch_casts(const StridedCopy* copies, std::uint32_t count, std::uint32_t tiles, cudaStream_t stream) {
    tpx_cast_items<<<tiles, block_threads, 0, stream>>>(copies, count);
    return cudaGetLastError();
}

cudaError_t launch_crcs(const CrcChunk* chunks, std::uint32_t count, std::uint32_t* crcs, cudaStream_t stream) {
    tpx_chunk_crcs<<<(count + block_threads - 1) / block_threads, block_threads, 0, stream>>>(chunks, count, crcs);
    return cudaGetLastError();
}

}  // namespace tpx::cuda
