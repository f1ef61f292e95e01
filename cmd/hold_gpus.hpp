// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold_state.hpp"
#include "lib/exec/gpu_memory.hpp"

#include <string>
#include <vector>

namespace tpx::cli {

/// In whose memory the held ranks are.
struct HoldPlace {
    std::vector<int> gpus;       ///< of each rank, in their order; empty: memory of the host
    std::vector<GpuRoom> rooms;  ///< of all GPUs; empty: memory of the host
    std::string reason;          ///< why it is that of the host, with --device auto
};

/// Chooses the memory that --device and --rank-gpus ask for. Throws Error if two ranks would share a GPU unasked, if
/// the state does not fit into the memory of a GPU, or if CUDA finds no GPU. This process must not have used CUDA, and
/// has not afterwards.
HoldPlace choose_place(const HoldOptions& options, const HoldJob& hold);

/// Copies the tensors of each part into memory of its GPU, and frees their memory of the host. From here on, this
/// process uses CUDA. Throws Error if that fails.
void move_to_gpus(std::vector<HeldPart>& parts, const HoldPlace& place);

/// A copy of a part's segment with its tensors, in memory of the host. Throws Error if it does not fit.
Fd segment_from_gpu(const HeldPart& part);

}  // namespace tpx::cli
