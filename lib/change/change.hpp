// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/cost.hpp"
#include "lib/change/peak_memory.hpp"
#include "lib/change/relocation.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace tpx {

/// Where a change takes place, and how.
struct Setting {
    std::vector<Host> hosts;
    std::vector<Seat> old_ranks;
    StateIn state = StateIn::memory;
    bool pinned = false;                    ///< new ranks are placed on the hosts in order
    bool may_read = false;                  ///< what no host holds is read from shared storage
    std::uint64_t window = default_window;  ///< see Relocation
};

/// Bytes that a change through shared storage reads and writes.
struct StorageBytes {
    std::uint64_t read = 0;
    std::uint64_t written = 0;
};

/// A change of layout: what is held before and after and by whom, where new ranks run, what moves in which order, what
/// that loads and how long it takes at least. Made from a model's description or from a checkpoint by the same code;
/// what plan prints and stores, what the checker proves, and what simulate charges.
struct Change {
    Setting setting;
    Parcels parcels;
    Placement placement;
    Relocation relocation;
    Prediction prediction;
    std::vector<std::uint64_t> held_before;  ///< bytes of each old rank
    std::vector<std::uint64_t> held_after;   ///< bytes of each new rank
    std::optional<PeakMemory> peak;          ///< of the device with least memory left; for state in device memory
};

/// Bytes of each old rank that are needed by some new rank.
std::vector<std::uint64_t> bytes_before(const Parcels& parcels);
/// Bytes of each new rank.
std::vector<std::uint64_t> bytes_after(const Parcels& parcels);

/// Places the new ranks and chooses and orders the transfers. `held_before` and `held_after` may be empty: bytes_before()
/// and bytes_after(). `stored`: given when the state goes through shared storage file by file. Throws Error as place()
/// and relocate() do.
Change make_change(Parcels parcels, Setting setting, std::vector<std::uint64_t> held_before = {},
                   std::vector<std::uint64_t> held_after = {}, std::optional<StorageBytes> stored = {});

/// Whether part of the state is in the memory of hosts, the rest on shared storage.
bool is_mixed(const Change& change);

}  // namespace tpx
