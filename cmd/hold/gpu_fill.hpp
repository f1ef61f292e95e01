// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/host_gpus.hpp"
#include "cmd/hold/hosts_plan.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tpx::cli {

/// Fills the memory of this host's GPUs that its keeper has allocated for the new state. Uses CUDA in this process.
class GpuFill {
public:
    /// Opens the allocated memory. All arguments must outlive the object.
    GpuFill(const HostsPlan& plan, const HostShare& share, const HostGpus& gpus, int host);

    /// Opens the GPU memory of source files that rounds read, and stores the addresses of these files and of the target
    /// files in lists by file number, as in RoundsMemory.
    void add_places(std::span<const std::byte*> sources, std::span<std::byte*> targets);

    /// Copies to the GPUs what `files`, the memory files of the share, already contain; then copies elements from GPU
    /// to GPU of this host by kernels.
    void begin(std::span<const Fd> files);

    /// Completes the state after the rounds: adds checksums, and copies the segments of ranks whose GPU has no room for
    /// lists of copies.
    void finish(std::span<const Fd> files);

    /// Adds the handles of GPU memory to the documents of `parts`, and frees the host memory of their tensors.
    void describe(std::vector<HeldPart>& parts) const;

private:
    struct Target {
        int rank = 0;
        int gpu = 0;
        bool is_direct = false;   // filled by kernels
        std::size_t segment = 0;  // number of the file in the share
        std::unique_ptr<GpuMemory> memory;
    };

    const GpuMemory& opened(int gpu, std::uint32_t source_file);
    std::vector<DirectTensor> tensors(const Target& target, bool only_unread) const;
    void copy_to(int gpu);

    const HostsPlan& plan_;
    const HostShare& share_;
    const HostGpus& gpus_;
    int host_;
    std::vector<Target> targets_;                                       // by rank of the host
    std::map<std::pair<int, int>, std::unique_ptr<GpuMemory>> opened_;  // source segments, by GPU that reads, and rank
};

}  // namespace tpx::cli
