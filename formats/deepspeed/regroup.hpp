// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/model_file.hpp"

#include <string>
#include <vector>

namespace tpx::formats::deepspeed {

/// The order in which round_robin_gradients flattens parameters: dealt out to the partitions in turn, those of one
/// partition side by side.
Group deal(const Group& group, int partitions);

/// `group`, dealt for `from` partitions out of the order in which `module` names its parameters, dealt for `to`. Throws
/// Error when it is in another order.
Group deal_again(const Group& group, const std::vector<std::string>& module, int from, int to);

/// How ZeRO 3 cuts a group of parameters into sub-groups: each ends with the parameter by which a rank's parts reach
/// `largest` elements.
std::vector<Group> cut_subgroups(const Group& group, Index largest, int partitions);

/// Sub-groups for another number of ranks.
struct Subgroups {
    std::vector<Group> groups;
    std::vector<std::size_t> like;    ///< the old sub-group of the same group of parameters whose settings each takes
    std::vector<std::size_t> counts;  ///< how many each group of parameters has
};

/// Joins `old` sub-groups, which were cut for `from` ranks out of groups of parameters that have `counts` of them, and
/// cuts them for `to`. Throws Error when they were not cut so.
Subgroups regroup(const std::vector<Group>& old, const std::vector<std::size_t>& counts, Index largest, int from,
                  int to);

}  // namespace tpx::formats::deepspeed
