// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/parcel.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/model_state.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The group of each old and of each new rank, such as its host; -1: none.
struct RankGroups {
    std::span<const std::int32_t> old_ranks;
    std::span<const std::int32_t> new_ranks;
};

/// Like model_parcels(), but for groups instead of ranks and for all roles together: sets of ranks become sets of
/// groups, and a parcel is what the same groups hold and the same groups need. With many ranks, there are far fewer
/// such parcels.
Parcels group_parcels(const ModelState& model, const Layout& from, const Layout& to, const RankGroups& groups);

}  // namespace tpx
