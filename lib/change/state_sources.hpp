// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"
#include "lib/change/parcel.hpp"
#include "lib/change/placement.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpx {

/// A place from which a change takes state: the memory or the store of a host, or shared storage.
struct StateSource {
    std::uint32_t host = 0;                  ///< or from_storage
    std::optional<std::uint64_t> iteration;  ///< not given: unknown

    friend bool operator==(const StateSource&, const StateSource&) = default;
};

/// Which kinds of sources a change uses.
struct SourceKinds {
    bool hosts = false;
    bool storage = false;
};

/// The sources of a change: the hosts on which old ranks hold state that a new rank needs, in order, then shared
/// storage, each if `kinds` says that it is used. `storage_iteration` is the iteration of the state on shared storage.
std::vector<StateSource> sources_of(const Parcels& parcels, std::span<const Host> hosts,
                                    std::span<const RankLocation> old_ranks, SourceKinds kinds,
                                    std::optional<std::uint64_t> storage_iteration);

/// Throws Error (failure) that names two sources if they hold state of different iterations. An unknown iteration
/// matches any other.
void require_one_iteration(std::span<const StateSource> sources, std::span<const Host> hosts);

}  // namespace tpx
