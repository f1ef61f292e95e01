// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/measured_value.hpp"
#include "lib/exec/mpi.hpp"

#include <string>
#include <vector>

namespace tpx {

/// A GPU that CUDA can use.
struct CudaGpu {
    std::string name;
    std::string bus;  ///< its PCI address, "0000:3b:00.0"
    int nvlinks = 0;  ///< active links according to NVML; 0 without NVML
};

/// The GPUs that this process can use, by their CUDA number, or the reason why there are none.
struct CudaGpus {
    std::vector<CudaGpu> gpus;
    std::string reason;
};

/// Never fails: without a driver, without a GPU, or in a build without CUDA, finds no GPUs.
CudaGpus find_cuda_gpus();

/// Bytes per second of one GPU.
struct GpuRates {
    MeasuredValue to_device, from_device;  ///< between pinned host memory and GPU memory
    MeasuredValue copy;                    ///< within GPU memory
};

/// Throws Error "CALL: reason".
GpuRates measure_gpu(int gpu, double seconds);

/// Bytes per second from each of the first `gpus` GPUs to each other one: directly if the two have peer access, else
/// through the host, as CUDA does it. Throws Error "CALL: reason".
std::vector<std::vector<MeasuredValue>> measure_peers(int gpus, double seconds);

/// Bytes per second that rank `from` copies from its GPU to memory of rank `to`'s GPU, through CUDA IPC. Both ranks,
/// which must be on one host, call it with their own `gpu`; rank `from` gets the result. Throws Error "CALL: reason" on
/// both.
MeasuredValue measure_ipc(const mpi::Comm& comm, int from, int to, int gpu, double seconds);

/// Bytes per second through NCCL.
struct NcclRates {
    std::vector<MeasuredValue> pairs;  ///< of each requested pair
    MeasuredValue all_reduce;          ///< bus bandwidth of all GPUs: bytes / seconds × 2 (n − 1) / n
};

/// Measures NCCL between the ranks of `members`, each with its own GPU `gpu`: first the pairs, given as positions in
/// `members`, then an all-reduce. In a pair of equal positions, a GPU sends to itself. Collective over `comm`; rank 0
/// gets the result. Throws Error "CALL: reason" on every rank.
NcclRates measure_nccl(const mpi::Comm& comm, const std::vector<int>& members,
                       const std::vector<std::pair<int, int>>& pairs, int gpu);

}  // namespace tpx
