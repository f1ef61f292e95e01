// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"
#include "lib/layout/layout.hpp"

#include <optional>
#include <string_view>

namespace tpx {

/// Throws Error (usage) if a rank of a layout with virtual nodes would run none, or if a virtual node would have no
/// sample in a global batch of `batch` samples; 0: the batch is unknown.
void check_virtual_nodes(const Layout& layout, Index batch);

/// The virtual nodes that the ranks with the dp coordinate `dp` run: part number `dp` of all virtual nodes, which are
/// divided into as many parts as there are coordinates, by `vn_parts` or evenly, see part(). Empty if the layout has no
/// virtual nodes.
Interval virtual_nodes_of(const Layout& layout, int dp);

/// The dp coordinate whose ranks run virtual node `node`, which must be one of those of the layout.
int dp_of_virtual_node(const Layout& layout, int node);

/// The number of the virtual node whose state a tensor or object of this name is: N of "virtual_nodes.N.ANY", also
/// below other keys. Nothing for other names.
std::optional<int> virtual_node_of(std::string_view name);

/// The samples of a global batch that consecutive `nodes` of `count` virtual nodes train on. Virtual node k trains on
/// part number k of the batch, see part(), on whichever ranks it runs. `nodes` must not be empty.
Interval samples_of(Interval nodes, int count, Index batch);

}  // namespace tpx
