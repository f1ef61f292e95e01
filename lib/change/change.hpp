// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/cost.hpp"
#include "lib/change/peak_memory.hpp"
#include "lib/change/relocation.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace tpx {

/// Bytes that a change through shared storage reads and writes.
struct StorageBytes {
    std::uint64_t read = 0;
    std::uint64_t written = 0;
};

/// How a change is to be made.
struct ChangeOptions {
    StateIn state = StateIn::memory;
    bool pinned = false;                    ///< new ranks are placed on the hosts in order
    bool may_read = false;                  ///< what no host holds is read from shared storage
    std::uint64_t window = default_window;  ///< see Relocation
    bool in_rounds = true;  ///< if not, transfers are chosen but not ordered, which takes most of the time, nor is the
                            ///< peak of memory found
    std::optional<StorageBytes> stored;      ///< given for state that goes through shared storage file by file
    std::vector<std::uint64_t> held_before;  ///< see Change; empty: bytes_before()
    std::vector<std::uint64_t> held_after;   ///< see Change; empty: bytes_after()
};

/// A change of layout: what is held before and after and by whom, where new ranks run, what moves in which order, what
/// that loads and how long it takes. Made from a model's description or from a checkpoint by the same code; it is what
/// plan prints and stores, what the checker proves, and what simulate charges.
struct Change {
    StateIn state = StateIn::memory;
    std::vector<Host> hosts;
    std::vector<Seat> old_ranks;
    Parcels parcels;
    Placement placement;
    Relocation relocation;
    Prediction prediction;
    std::vector<std::uint64_t> held_before;  ///< bytes of each old rank
    std::vector<std::uint64_t> held_after;   ///< bytes of each new rank
    std::optional<PeakMemory> peak;          ///< of the device with least memory left; for state in device memory

    /// Whether part of the state is in the memory of hosts, the rest on shared storage.
    bool is_mixed() const;
};

/// Bytes of each old rank that some new rank needs.
std::vector<std::uint64_t> bytes_before(const Parcels& parcels);
/// Bytes that each new rank needs.
std::vector<std::uint64_t> bytes_after(const Parcels& parcels);

/// Places the new ranks, and chooses and orders the transfers. Throws Error as place() and relocate() do.
Change make_change(Parcels parcels, std::vector<Host> hosts, std::vector<Seat> old_ranks, ChangeOptions options);

}  // namespace tpx
