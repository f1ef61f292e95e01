// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/hold_state.hpp"
#include "lib/exec/agreement.hpp"
#include "lib/exec/device/links.hpp"
#include "lib/exec/device/rounds.hpp"
#include "lib/exec/wire/mirror.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

// Plans how the state that several hosts hold gets a new layout: each host gets the state of the new ranks that run on
// it.
namespace tpx::cli {

/// Bytes of memory for the messages that a host or GPU sends in a round, and as many for those that it receives; fewer,
/// but at least `least_round_staging`, if a GPU has little free memory.
inline constexpr std::uint64_t round_staging = std::uint64_t{64} << 20;
inline constexpr std::uint64_t least_round_staging = std::uint64_t{8} << 20;

/// The GPUs of a host from and to which state moves directly, by rank: `sources` have the state that a keeper holds,
/// and `targets` get the state of new ranks. The state of all other ranks moves through host memory.
struct GpuPlaces {
    std::map<int, int> sources;
    std::map<int, int> targets;
    GpuLinks links = {};  ///< between the GPUs of the host
    std::set<int> cannot_send =
        {};  ///< ranks of `sources` whose GPU has no room for lists of copies: they are sent through host memory
    std::uint64_t staging =
        round_staging;  ///< bytes per round and direction that fit on every GPU, but at least the least
};

/// The places as one line of text, and the places that such a text contains.
std::string to_text(const GpuPlaces& places);
GpuPlaces parse_gpu_places(const std::string& text);

/// The plan for all hosts, equal on each of them. Host k is MPI rank k.
struct HostsPlan {
    HoldJob hold;                               ///< of the ranks of all hosts
    std::vector<std::vector<int>> ranks;        ///< that each host will hold, ascending
    std::vector<std::vector<int>> holders;      ///< by source file: the hosts that have it, ascending
    std::vector<std::vector<int>> source_gpus;  ///< by host, then source file: its GPU; -1: memory of the host
    std::vector<std::vector<int>> sender_gpus;  ///< the same, but -1 for GPUs that cannot send
    std::vector<Endpoint> target_files;         ///< by file of the draft: its host and GPU; files without tensors: any
    Moves moves;                                ///< of all elements, within a host where that is possible
    Moves carried;                              ///< the moves of `moves` between hosts
    std::vector<Endpoint> senders;              ///< for each carried move: the memory that sends it
    std::vector<Round> rounds;                  ///< in which `carried` is sent; see place_on_gpus()
    std::vector<LinkBytes> links;  ///< by host: bytes that it gets by each kind of link; see place_on_gpus()

    /// The carried moves, for functions about rounds. Refers to this plan.
    RoundsJob rounds_job() const;

    /// The source files of which `sender` sends elements.
    std::set<std::uint32_t> files_sent(const Endpoint& sender) const;

    /// The host that gets a piece of the target.
    int host_of(std::uint32_t target) const;

    /// Whether a host has the source file of a move.
    bool has_source(int host, const Move& move) const;

    /// Whether a move is between hosts.
    bool is_carried(const Move& move) const { return !empty(move.box) && !has_source(host_of(move.target), move); }

    /// The memory of a host that has a source file.
    Endpoint source_endpoint(int host, std::uint32_t file) const {
        return {host, source_gpus[static_cast<std::size_t>(host)][file]};
    }

    /// The memory from which a host sends a source file to other hosts.
    Endpoint sender_endpoint(int host, std::uint32_t file) const {
        return {host, sender_gpus[static_cast<std::size_t>(host)][file]};
    }

    /// Whether the values of a source file are computed from its bytes.
    bool is_computed(std::uint32_t file) const;
};

/// How far one memory is from another; lower is better. Memory of the same host is nearest.
using EndpointDistance = std::function<int(const Endpoint& from, const Endpoint& to)>;

/// Measured rates between hosts; empty members are unknown.
struct HostRates {
    std::vector<std::vector<int>> link_ranks;  ///< [from][to]: links with lower ranks are faster
    std::vector<double> nics;                  ///< bytes per second of each host
};

/// Plans to hold the checkpoint in `folder`, whose files are on the hosts that `files` names. `ranks` has the value of
/// --ranks on each host. Reads only files in `folder`. Bytes that the draft copies are read, too, and become fixed
/// bytes of the draft. Throws Error as prepare_hold() and ranks_of_hosts() do, and if a move between hosts requires a
/// computation or a cast that rounds do not support. The plan has no rounds before place_on_gpus().
HostsPlan plan_hosts(const HoldOptions& options, const std::filesystem::path& folder, std::span<const StoredFile> files,
                     std::span<const std::string> ranks);

/// Plans the moves, each from the nearest source, and who sends those between hosts; see spread_senders(). Throws Error
/// as plan_hosts().
void set_moves(HostsPlan& plan, const EndpointDistance& distance, std::span<const double> nics = {});

/// Assigns source and target files to GPUs as in `places`, which has one entry per host, and plans the moves, so that
/// each element comes by the fastest link to a copy of it, and the rounds. Throws Error as plan_hosts().
void place_on_gpus(HostsPlan& plan, std::span<const GpuPlaces> places, const HostRates& rates = {});

/// The parts of a plan that must be equal on all hosts, for require_same().
std::vector<Claim> claims_of(const HostsPlan& plan);

/// One host's part of a plan.
struct HostShare {
    Draft draft;                        ///< of the files that the host gets
    std::vector<std::uint32_t> own;     ///< the numbers of these files in the draft of all hosts
    std::vector<Piece> targets;         ///< in these files, of elements that the host reads from its own memory
    Moves moves;                        ///< to `targets`
    std::vector<std::uint32_t> copied;  ///< indices in HostsPlan::moves: moves between GPUs of this host, by kernels
    std::vector<std::uint32_t> filled;  ///< pieces of `draft` with elements from other hosts or of `copied`, ascending
    std::vector<std::uint32_t> read;    ///< pieces of `draft` that get elements by `moves`, ascending
    std::uint64_t bytes = 0;            ///< of memory that the files occupy
    std::uint64_t saved = 0;            ///< bytes of them that need no host memory: tensors that only GPUs fill

    Side target(const formats::Conversion& conversion) const { return {conversion.target_tensors, targets}; }
};

/// The part of `plan` that `host` executes, whose GPUs are `places`.
HostShare share_of(const HostsPlan& plan, int host, const GpuPlaces& places);

}  // namespace tpx::cli
