// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/model_file.hpp"

#include <string>
#include <vector>

namespace tpx::formats::deepspeed {

/// The order in which round_robin_gradients flattens parameters: assigned to the partitions in turn, those of each
/// partition together.
Group deal(const Group& group, int partitions);

/// Reorders `group`, which deal() made for `from` partitions from the order of the parameters in `module`, for `to`
/// partitions. Throws Error if `group` is in another order.
Group deal_again(const Group& group, const std::vector<std::string>& module, int from, int to);

/// Cuts a parameter group into sub-groups as ZeRO 3 does: each ends with the parameter with which a rank's parts reach
/// `largest` elements.
std::vector<Group> cut_subgroups(const Group& group, Index largest, int partitions);

}  // namespace tpx::formats::deepspeed
