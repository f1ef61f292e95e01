// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/hold_state.hpp"
#include "lib/core/error.hpp"
#include "lib/exec/gpu_memory.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tpx::cli {

class DirectMoves;

/// Where the tensors of the held ranks are stored.
struct HoldPlace {
    std::vector<int> gpus;           ///< of each rank, in their order; empty: host memory
    std::vector<GpuInfo> gpu_infos;  ///< of all GPUs; empty: host memory
    GpuLinks links = {};             ///< between them
    bool is_auto = false;            ///< whether host memory takes what GPUs cannot
    std::string reason;              ///< with --device auto: why host memory was chosen
};

/// Whether --device asks for GPU memory.
bool wants_gpus(const HoldOptions& options);

/// Throws Error (usage) unless --rank-gpus is a list of GPUs and goes with --device.
void check_rank_gpus(const HoldOptions& options);

/// The bytes of the segment of a rank, which is among `files`.
std::uint64_t segment_size(const std::vector<FileEntry>& files, int rank);

/// The GPUs of this host, with their free memory. Uses CUDA only in a child process, like choose_place().
std::vector<GpuInfo> gpus_of_host();

/// Throws Error unless the GPUs of this host have room for ranks, by their GPU and bytes. Uses CUDA only in a child
/// process, like choose_place().
void check_gpu_memory(std::span<const int> ranks, std::span<const int> gpus, std::span<const std::uint64_t> bytes);

/// Chooses the memory for the segments of `ranks`, which are among `files`, as --device and --rank-gpus request. Throws
/// Error if there are fewer GPUs than ranks and none are assigned, if the state does not fit into the memory of
/// a GPU, or if CUDA finds no GPU. Uses CUDA only in a child process; this process must not have used it.
HoldPlace choose_place(const HoldOptions& options, const std::vector<int>& ranks, const std::vector<FileEntry>& files);

/// Thrown if copies from GPU to GPU fail; the state can still be copied through host memory.
struct DirectFailure : Error {
    explicit DirectFailure(const Error& reason) : Error{reason} {}
};

/// Copies the tensors of each part into memory of its GPU, and frees their host memory once all are there; those of
/// `direct`, which may be null, are copied from other GPUs. Uses CUDA in this process. If that fails, all tensors stay
/// where they are: throws DirectFailure with `direct`; else, with --device auto, returns why, which is empty otherwise;
/// else throws Error.
std::string move_to_gpus(std::vector<HeldPart>& parts, const HoldPlace& place, const DirectMoves* direct);

}  // namespace tpx::cli
