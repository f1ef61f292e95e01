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

}  // namespace tpx::formats::deepspeed
