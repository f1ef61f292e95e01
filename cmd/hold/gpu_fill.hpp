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
    /// Opens this memory. All arguments must outlive the object.
    GpuFill(const HostsPlan& plan, const HostShare& share, const HostGpus& gpus, int host);

    /// Opens the memory of source files that rounds read, and adds its address and that of the target files to these
    /// lists by file, as RoundsMemory has them.
    void add_places(std::span<const std::byte*> sources, std::span<std::byte*> targets);

    /// Copies the parts of the state that are in the memory files of the share, and then what kernels copy from GPU to
    /// GPU of this host.
    void begin(std::span<const Fd> files);

    /// When rounds have filled the rest: adds checksums, and copies the state of ranks whose GPU kernels cannot fill.
    void finish(std::span<const Fd> files);

    /// Puts the memory of GPUs into the documents of `parts`, and frees the host memory of their tensors.
    void describe(std::vector<HeldPart>& parts) const;

private:
    struct Target {
        int rank = 0;
        int gpu = 0;
        bool is_direct = false;   // filled by kernels
        std::size_t segment = 0;  // number of the file in the share
        std::unique_ptr<GpuMemory> memory;
    };

    const GpuSegment& segment_of(std::uint32_t source_file) const;
    const GpuMemory& opened(int gpu, std::uint32_t source_file);
    std::vector<DirectTensor> tensors(const Target& target, bool only_unread) const;
    void copy_to(int gpu);

    const HostsPlan& plan_;
    const HostShare& share_;
    const HostGpus& gpus_;
    int host_;
    std::vector<Target> targets_;                                       // by rank of the host
    std::map<std::pair<int, int>, std::unique_ptr<GpuMemory>> opened_;  // of the source, by GPU that reads and rank
};

}  // namespace tpx::cli
