// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/gpu_segment.hpp"
#include "cmd/hold/gpu_source.hpp"
#include "cmd/hold/hold_gpus.hpp"
#include "cmd/hold/hold_state.hpp"
#include "lib/exec/device/links.hpp"
#include "lib/exec/device/move_copies.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tpx::cli {

/// The most copies in one batch, and the bytes of GPU memory for their list and for checksums.
inline constexpr std::size_t copies_at_once = 16384;
inline constexpr std::uint64_t memory_of_lists = copies_at_once * GpuCopier::copy_memory + GpuCopier::crc_memory;

/// Memory that one GPU needs for the new state, in bytes.
struct GpuNeed {
    int gpu = 0;
    std::uint64_t old = 0;       ///< of old state on this GPU, already allocated
    std::uint64_t fresh = 0;     ///< of the new segments
    std::uint64_t staging = 0;   ///< for lists of copies and checksums
    std::uint64_t free = 0;      ///< before the new state is allocated
    bool is_direct = false;      ///< whether tensors are copied to it from GPUs; otherwise, from memory of the host
    std::uint64_t messages = 0;  ///< for messages to and from GPUs of other hosts

    /// Sets `is_direct` and `staging`: kernels need room for their lists beside the new state.
    void plan_lists() {
        is_direct = fresh + memory_of_lists <= free;
        staging = is_direct ? memory_of_lists : 0;
    }
};

/// Executes the moves whose numbers are `chosen` by kernels of `gpu`, which must be able to access all the memory, and
/// waits for them. Throws Error if CUDA fails, and if a value does not fit the dtype that it is cast to. Precondition:
/// can_copy() each.
void copy_on_gpu(int gpu, const Moves& moves, std::span<const std::uint32_t> chosen,
                 const PlacedSide<const std::byte>& source, const PlacedSide<std::byte>& target);

/// How the tensors of a change reach the GPUs: those that kernels copy from the source's memory, and the others, by way
/// of memory of the host.
class DirectMoves {
public:
    /// Each box comes by the fastest link that reaches a copy of it: from the GPU that it goes to, by NVLink, by PCIe,
    /// and last through memory of the host. A tensor is copied by a kernel if all of it comes from memory of GPUs that
    /// the kernel reaches, and the kernel has its casts.
    /// A GPU without room for the lists of copies gets its tensors from memory of the host. `place` has a GPU for each
    /// held rank.
    DirectMoves(const HoldJob& hold, const HoldPlace& place, const GpuSource& source);

    const std::vector<GpuNeed>& needs() const { return needs_; }
    std::uint64_t gpu_bytes() const { return gpu_bytes_; }    ///< that kernels copy
    std::uint64_t host_bytes() const { return host_bytes_; }  ///< of the other tensors
    const LinkBytes& links() const { return links_; }         ///< of all tensors, by the links that carry them
    std::uint64_t segment_bytes(int rank) const { return segment_bytes_.at(rank); }

    /// The moves by way of the host, and the pieces that they fill.
    const Moves& host_moves() const { return host_moves_; }
    Side host_target() const { return {conversion_.target_tensors, host_pieces_}; }

    /// The tensors of a rank that a kernel copies, by offset.
    std::span<const DirectTensor> tensors_of(int rank) const;

    /// Copies the tensors to `memory`, one entry for each held rank, which already contains everything else. Throws
    /// Error if CUDA fails, if a value does not fit the dtype that it is cast to, or if the keeper of the source ended
    /// before all was copied.
    void run(const std::vector<GpuMemory*>& memory) const;

private:
    void find_places();
    MemoryLink link(std::uint32_t source, std::uint32_t target) const;
    std::uint64_t written_bytes(const Move& move) const;
    void choose(const HoldPlace& place);
    void split();
    void copy_to(int gpu, std::span<std::byte* const> targets) const;

    const formats::Conversion& conversion_;
    Moves moves_;
    const GpuSource& source_;
    std::span<const GpuSegment> sources_;
    std::vector<int> ranks_;
    std::vector<int> gpus_;  // by held rank
    GpuLinks between_gpus_;
    std::vector<int> source_gpus_;      // by GpuSegment
    std::vector<int> source_of_file_;   // number of the GpuSegment of a source file; -1: in memory of the host
    std::vector<int> rank_of_file_;     // number of the held rank of a target file; -1: none
    std::vector<std::uint32_t> owner_;  // the draft's piece in which a target piece is
    std::vector<bool> direct_;          // by draft piece
    std::vector<GpuNeed> needs_;
    std::uint64_t gpu_bytes_ = 0, host_bytes_ = 0;
    LinkBytes links_;
    Moves host_moves_;
    std::vector<Piece> host_pieces_;
    std::map<int, std::vector<std::uint32_t>> direct_moves_;  // by target GPU
    std::map<int, std::vector<DirectTensor>> tensors_;        // by rank
    std::map<int, std::uint64_t> segment_bytes_;
};

}  // namespace tpx::cli
