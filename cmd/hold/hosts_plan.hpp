// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/hold_state.hpp"
#include "lib/exec/agreement.hpp"
#include "lib/exec/device/rounds.hpp"
#include "lib/exec/wire/mirror.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

// What several hosts hold together: each gets the state of the new ranks that run on it.
namespace tpx::cli {

/// Memory for the messages of a round on each host, once for those that it sends and once for those that it receives.
inline constexpr std::uint64_t round_staging = std::uint64_t{64} << 20;

/// A plan of all hosts, the same on each. Host number k is rank k of the job.
struct HostsPlan {
    HoldJob hold;                           ///< of all ranks that a host will hold
    std::vector<std::vector<int>> ranks;    ///< of each host, ascending
    std::vector<std::vector<int>> holders;  ///< by source file: the hosts that have it, ascending
    std::vector<Endpoint> source_files;     ///< by source file: the host that sends its bytes to others
    std::vector<Endpoint> target_files;     ///< by file of the draft: the host of its rank; files without tensors: any
    Moves moves;                            ///< of all elements, from the host itself where it has them
    Moves carried;                          ///< of these, the moves between hosts
    std::vector<Round> rounds;              ///< of the carried moves

    /// The carried moves, for functions about rounds. Refers to this plan.
    RoundsJob rounds_job() const;

    /// Whether a host has the source of a move.
    bool has_source(int host, const Move& move) const;
};

/// Plans to hold the checkpoint in `folder`, whose files are on the hosts that `files` names. `ranks` has the value of
/// --ranks on each host. Reads only `folder`, including the bytes that the draft copies, which become fixed bytes of
/// it. Throws Error as prepare_hold() and ranks_of_hosts() do, and if values must be computed or cast between hosts in
/// a way that rounds cannot.
HostsPlan plan_hosts(const HoldOptions& options, const std::filesystem::path& folder, std::span<const StoredFile> files,
                     std::span<const std::string> ranks);

/// What all hosts must have planned alike.
std::vector<Claim> claims_of(const HostsPlan& plan);

/// What one host does for a plan.
struct HostShare {
    Draft draft;                        ///< of the files of its ranks
    std::vector<std::uint32_t> own;     ///< their numbers in the draft of all hosts
    std::vector<Piece> targets;         ///< in these files, for the elements that the host has
    Moves moves;                        ///< to `targets`
    std::vector<std::uint32_t> filled;  ///< pieces of the draft that get elements from other hosts, ascending
    std::uint64_t bytes = 0;            ///< of memory for the files

    Side target(const formats::Conversion& conversion) const { return {conversion.target_tensors, targets}; }
};

HostShare share_of(const HostsPlan& plan, int host);

}  // namespace tpx::cli
