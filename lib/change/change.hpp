// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/peak_memory.hpp"
#include "lib/change/place_for_time.hpp"
#include "lib/change/place_groups.hpp"
#include "lib/change/prediction.hpp"
#include "lib/change/relocation.hpp"
#include "lib/change/state_sources.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace tpx {

/// Bytes that a change through shared storage reads and writes.
struct StorageBytes {
    std::uint64_t read = 0;
    std::uint64_t written = 0;
};

/// What the placement of a change minimizes; ties in bytes between hosts are always broken by time.
enum class Objective : std::uint8_t { bytes, time };

/// How new ranks may be placed.
enum class PlacementClass : std::uint8_t {
    blocks,  ///< each host gets consecutive ranks, see cut_blocks()
    groups   ///< each TP group goes to any host, see place_groups()
};

/// How to make a change.
struct ChangeOptions {
    StateMedium state = StateMedium::memory;
    bool pinned = false;                     ///< new ranks are placed on the hosts in order
    Objective objective = Objective::bytes;  ///< time requires PlacementClass::blocks
    PlacementClass placement_class = PlacementClass::blocks;
    int group = 1;                          ///< consecutive ranks that stay on one host; see cut_blocks()
    bool may_read = false;                  ///< state that no host holds is read from shared storage
    std::uint64_t window = default_window;  ///< see Relocation
    bool in_rounds = true;  ///< if false, transfers are not ordered, which takes most of the time, and `peak` is empty
    std::optional<StorageBytes> stored;              ///< set if the state goes through shared storage file by file
    std::optional<Placement> placement;              ///< if not given, the best one is chosen
    std::vector<std::uint64_t> held_before;          ///< see Change; empty: bytes_before()
    std::vector<std::uint64_t> held_after;           ///< see Change; empty: bytes_after()
    std::optional<std::uint64_t> storage_iteration;  ///< of the state on shared storage; not given: unknown
};

/// A change of layout: who holds what before and after, where new ranks run, what moves in which order, the load on
/// each host and the time. It is made by the same code from a model description or from a checkpoint. `plan` prints and
/// stores it, the checker proves it, and `simulate` charges its time.
struct Change {
    StateMedium state = StateMedium::memory;
    std::vector<Host> hosts;
    std::vector<RankLocation> old_ranks;
    Parcels parcels;
    Placement placement;
    Relocation relocation;
    Prediction prediction;
    std::vector<std::uint64_t> held_before;  ///< bytes of each old rank
    std::vector<std::uint64_t> held_after;   ///< bytes of each new rank
    Objective objective = Objective::bytes;
    std::optional<FastPlacement> by_time;  ///< the result of Objective::time, if the time depends on the placement; its
                                           ///< own placement is moved from
    std::optional<std::uint64_t> group_bound;  ///< GroupPlacement::bound, if PlacementClass::groups was used
    std::optional<PeakMemory> peak;    ///< of the device with the least memory left; only for state in device memory
    std::vector<StateSource> sources;  ///< see sources_of(); if a plan was read, only those with a known iteration

    /// Whether part of the state is in the memory of hosts and the rest on shared storage.
    bool is_mixed() const;
};

/// The bytes that each old rank holds and some new rank needs.
std::vector<std::uint64_t> bytes_before(const Parcels& parcels);
/// The bytes that each new rank needs.
std::vector<std::uint64_t> bytes_after(const Parcels& parcels);

/// Places the new ranks, and chooses and orders the transfers. Throws Error as place(), relocate() and
/// require_one_iteration() do, and (usage) if PlacementClass::groups is given but whole groups do not fit on the hosts.
Change make_change(Parcels parcels, std::vector<Host> hosts, std::vector<RankLocation> old_ranks,
                   ChangeOptions options);

}  // namespace tpx
