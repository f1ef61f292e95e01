// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/parcel.hpp"
#include "lib/change/placement.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/model.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// What it costs to take a model from one layout to others: the few numbers that layouts are compared by, in a small
/// part of the time that plans take. Whole hosts are compared: what several ranks of a host hold or need is one amount.
/// All that is given must outlive this. The functions may be called by several threads.
class LayoutCosts {
public:
    LayoutCosts(const ModelState& model, const Layout& from, std::span<const Host> hosts,
                std::span<const Seat> old_ranks);

    struct Bounds {
        std::uint64_t most_held = 0;       ///< bytes of the rank that holds most
        std::uint64_t least_crossing = 0;  ///< what must come into hosts at least
    };

    /// What follows from how much hosts hold and need. Throws Error (usage) when `to` cannot be.
    Bounds bounds(const Layout& to) const;

    /// What hosts hold that have `from` and need that get `to`: parcels of sets of ranks that are each the first of its
    /// host.
    Parcels amounts(const Layout& to) const;

    /// What must come into hosts at least, given amounts(): each block of ranks on the host that has most of what it
    /// needs, even if several then are on one.
    std::uint64_t least_crossing(const Parcels& amounts) const;

    /// Placement::crossing of the best placement (`pinned`: of the given order), exactly, given amounts(to).
    std::uint64_t crossing(const Layout& to, const Parcels& amounts, bool pinned) const;

private:
    std::uint64_t kept_at_most(std::span<const std::uint64_t> needed) const;

    const ModelState& model_;
    const Layout& from_;
    std::span<const Host> hosts_;
    std::span<const Seat> old_ranks_;
    std::vector<std::int32_t> first_on_host_;       // of each old rank: the first that is on its host; -1: on none
    std::vector<std::vector<std::uint64_t>> held_;  // by hosts, of each stage; equal ones once
};

}  // namespace tpx
