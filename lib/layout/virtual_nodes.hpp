// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"
#include "lib/layout/layout.hpp"

namespace tpx {

/// Throws Error (usage) if a rank of a layout with virtual nodes would run none, or if a virtual node would have no
/// sample in a global batch of `batch` samples; 0: the batch is unknown.
void check_virtual_nodes(const Layout& layout, Index batch);

/// The virtual nodes that the ranks with the dp coordinate `dp` run: part number `dp` of all virtual nodes, which are
/// divided into as many parts as there are coordinates, by `vn_parts` or evenly, see part(). Empty if the layout has no
/// virtual nodes.
Interval virtual_nodes_of(const Layout& layout, int dp);

/// The samples of a global batch that consecutive `nodes` of `count` virtual nodes train on. Virtual node k trains on
/// part number k of the batch, see part(), on whichever ranks it runs. `nodes` must not be empty.
Interval samples_of(Interval nodes, int count, Index batch);

}  // namespace tpx
