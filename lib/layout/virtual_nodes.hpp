// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"
#include "lib/layout/layout.hpp"

namespace tpx {

/// Throws Error (usage) when a rank of a layout with virtual nodes would run none, or when a virtual node would have no
/// sample of a global batch of `batch` samples; 0: the batch is unknown.
void check_virtual_nodes(const Layout& layout, Index batch);

/// The virtual nodes that the ranks at coordinate `dp` of dp run: the `dp`-th of as many parts of all virtual nodes as
/// there are coordinates, see part(). Empty if the layout has no virtual nodes.
Interval virtual_nodes_of(const Layout& layout, int dp);

/// The samples of a global batch that consecutive `nodes` of `count` virtual nodes train on. Virtual node k has the
/// k-th part of the batch, see part(), wherever it runs. `nodes` must not be empty.
Interval samples_of(Interval nodes, int count, Index batch);

}  // namespace tpx
