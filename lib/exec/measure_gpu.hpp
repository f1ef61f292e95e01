// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/measured.hpp"
#include "lib/exec/mpi.hpp"

#include <string>
#include <vector>

namespace tpx {

/// A GPU that CUDA can use.
struct CudaGpu {
    std::string name;
    std::string bus;  ///< its PCI address, "0000:3b:00.0"
    int nvlinks = 0;  ///< that are up, as NVML says; 0 where there is no NVML
};

/// The GPUs that this process can use, by their CUDA number, or why there are none.
struct CudaGpus {
    std::vector<CudaGpu> gpus;
    std::string reason;
};

/// Never fails: without a driver, without a GPU, or in a build without CUDA there are none.
CudaGpus find_cuda_gpus();

/// Bytes per second of one GPU.
struct GpuRates {
    Measured to_device, from_device;  ///< between pinned memory of the host and its own
    Measured copy;                    ///< bytes copied inside its memory
};

/// Throws Error "CALL: reason".
GpuRates measure_gpu(int gpu, double seconds);

/// Bytes per second from each of the first `gpus` GPUs to each other, directly where the two have peer access, else as
/// CUDA does it through the host. Throws Error "CALL: reason".
std::vector<std::vector<Measured>> measure_peers(int gpus, double seconds);

/// Bytes per second that rank `from` copies out of its GPU into memory of rank `to`'s, which it reaches by CUDA IPC.
/// Both ranks call it, are on one host and say which GPU is theirs; the result is on `from`. Throws Error "CALL:
/// reason" on both.
Measured measure_ipc(const mpi::Comm& comm, int from, int to, int gpu, double seconds);

/// Bytes per second through NCCL.
struct NcclRates {
    std::vector<Measured> pairs;  ///< of each pair that was asked for
    Measured all_reduce;          ///< bus bandwidth of all GPUs: bytes / seconds × 2 (n − 1) / n
};

/// Lets the ranks of `members`, each with its own GPU `gpu`, send to each other: first the pairs, given as positions in
/// `members`, then all reduce. Collective over `comm`; rank 0 gets the result. Throws Error "CALL: reason" on every
/// rank.
NcclRates measure_nccl(const mpi::Comm& comm, const std::vector<int>& members,
                       const std::vector<std::pair<int, int>>& pairs, int gpu);

}  // namespace tpx
