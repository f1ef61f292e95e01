// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/parcel.hpp"
#include "lib/change/placement.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/model_state.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The cost of changing a model from one layout to others: the few numbers by which layouts are compared, in a small
/// fraction of the time that plans take. Hosts are treated as wholes: what several ranks of a host hold or need is one
/// amount. All constructor arguments must outlive this object. The functions are safe to call from several threads.
class LayoutCosts {
public:
    LayoutCosts(const ModelState& model, const Layout& from, std::span<const Host> hosts,
                std::span<const RankLocation> old_ranks);

    struct Bounds {
        std::uint64_t most_held = 0;       ///< bytes of the rank that holds the most
        std::uint64_t least_crossing = 0;  ///< lower bound on the bytes that cross into hosts
    };

    /// The bounds that follow from how much hosts hold and need. Throws Error (usage) if `to` is impossible.
    Bounds bounds(const Layout& to) const;

    /// What hosts hold with `from` and need with `to`, as parcels in which the first rank of a host or block stands for
    /// all of its ranks.
    Parcels amounts(const Layout& to) const;

    /// A lower bound on the bytes that cross into hosts, given amounts(): each block is on the host that holds most of
    /// what it needs, even if several blocks are then on one host.
    std::uint64_t least_crossing(const Parcels& amounts) const;

    /// The exact Placement::crossing of the best placement (`pinned`: of the given order), given amounts(to).
    std::uint64_t crossing(const Layout& to, const Parcels& amounts, bool pinned) const;

private:
    std::uint64_t kept_at_most(std::span<const std::uint64_t> needed) const;

    const ModelState& model_;
    const Layout& from_;
    std::span<const Host> hosts_;
    std::span<const RankLocation> old_ranks_;
    std::vector<std::int32_t> first_on_host_;       // for each old rank, the first rank on its host; -1: it is on none
    std::vector<std::vector<std::uint64_t>> held_;  // bytes per host and stage; equal hosts once
};

}  // namespace tpx
