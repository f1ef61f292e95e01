// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/cuda/nvml.hpp"
#include "lib/exec/cuda/runtime.hpp"
#include "lib/exec/gpu_memory.hpp"
#include "lib/exec/measure_gpu.hpp"

namespace tpx {
namespace {

/// The link by which kernels of GPU `to` read memory of GPU `from`.
MemoryLink link_of(int from, int to, bool has_nvlink) {
    if (from == to) return {LinkClass::same_gpu, 0};
    int possible = 0, rank = 0;
    cuda::check(cudaDeviceCanAccessPeer(&possible, to, from), "cudaDeviceCanAccessPeer");
    if (possible == 0) return {LinkClass::host_memory, 0};
    if (cudaDeviceGetP2PAttribute(&rank, cudaDevP2PAttrPerformanceRank, to, from) != cudaSuccess) {
        cudaGetLastError();
        rank = 0;
    }
    return {has_nvlink ? LinkClass::nvlink : LinkClass::pcie, rank};
}

}  // namespace

GpuLinks list_gpu_links() {
    std::vector<std::string> buses;
    for (const CudaGpu& gpu : find_cuda_gpus().gpus) buses.push_back(gpu.bus);
    const std::vector<std::vector<bool>> nvlinks = cuda::find_nvlinks(buses);
    GpuLinks links(buses.size());
    for (std::size_t from = 0; from < buses.size(); ++from)
        for (std::size_t to = 0; to < buses.size(); ++to)
            links[from].push_back(link_of(static_cast<int>(from), static_cast<int>(to), nvlinks[from][to]));
    return links;
}

}  // namespace tpx
