// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/model_file.hpp"

#include <string>
#include <vector>

namespace tpx::formats::deepspeed {

/// The order in which round_robin_gradients flattens parameters: assigned to the partitions in turn, those of each
/// partition together.
ParameterGroup round_robin_order(const ParameterGroup& group, int partitions);

/// Reorders `group`, which round_robin_order() made for `from` partitions from the order of the parameters in `module`,
/// for `to` partitions. Throws Error if `group` is in another order.
ParameterGroup reorder_round_robin(const ParameterGroup& group, const std::vector<std::string>& module, int from,
                                   int to);

/// Cuts a parameter group into sub-groups as ZeRO 3 does: each ends with the parameter with which a rank's parts reach
/// `largest` elements.
std::vector<ParameterGroup> cut_subgroups(const ParameterGroup& group, Index largest, int partitions);

}  // namespace tpx::formats::deepspeed
