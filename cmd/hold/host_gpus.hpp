// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/direct_moves.hpp"
#include "cmd/hold/gpu_source.hpp"
#include "cmd/hold/hold_gpus.hpp"
#include "cmd/hold/hosts_plan.hpp"
#include "cmd/hold/waiting_keeper.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tpx::cli {

/// GPU memory of this host: that of the state that several hosts hold, and that of the new state.
class HostGpus {
public:
    /// With --device cuda or auto: opens the state that a keeper of this host holds in GPU memory, without a copy. If
    /// that fails, sets `reason`; the state is then read through host memory. It is not an error if no keeper has that
    /// name.
    void open_source(const HoldOptions& options, std::string& reason);

    /// Chooses the GPUs of `ranks`, as choose_place() does. Kernels fill new state and send old state only on GPUs that
    /// have room for lists of copies beside the new state; with --transport nccl, all GPUs with old state send.
    void choose(const HoldOptions& options, const std::vector<int>& ranks, const std::vector<FileEntry>& files);

    /// Throws Error if a GPU that sends old state to other hosts has no room for lists of copies.
    void check_room_for_sending(int gpu) const;

    /// Which GPUs have no room for lists of copies, for a note; empty: all have.
    std::string indirect_text() const;

    /// Lets the keeper allocate the memory for the new state. If that fails with --device auto, chooses host memory.
    void allocate(WaitingKeeper& keeper);

    const HoldPlace& place() const { return place_; }
    /// The GPUs, with their free memory; empty if this host uses none.
    const std::vector<GpuInfo>& gpu_infos() const { return gpu_infos_; }

    /// Memory needs of each GPU that receives new state or holds old state.
    const std::vector<GpuNeed>& needs() const { return needs_; }
    std::vector<GpuNeed>& needs() { return needs_; }
    const GpuSource* source() const { return source_.get(); }
    GpuSource* source() { return source_.get(); }

    /// The ranks of this host, the bytes of their segments, and the memory that the keeper has allocated for them.
    const std::vector<int>& ranks() const { return ranks_; }
    const std::vector<std::uint64_t>& sizes() const { return sizes_; }
    const std::vector<GpuHandle>& handles() const { return handles_; }

    /// The number of the GPU that has a segment of the source.
    int gpu_of(const GpuSegment& segment) const;

    /// The GPU segment that stores the content of a source file; null if the file stores it itself.
    const GpuSegment* segment_of(const std::filesystem::path& file) const;

    /// The GPUs from and to which kernels copy, those that cannot send, and the room that they have for messages.
    GpuPlaces places() const;

private:
    bool is_direct(int gpu) const;

    std::unique_ptr<GpuSource> source_;
    HoldPlace place_;
    std::vector<GpuInfo> gpu_infos_;  // of all GPUs; empty: neither the old state nor the new one is in memory of a GPU
    std::vector<int> ranks_;
    std::vector<std::uint64_t> sizes_;
    std::vector<GpuNeed> needs_;
    std::vector<GpuHandle> handles_;
    std::string transport_;  // the value of --transport
};

}  // namespace tpx::cli
