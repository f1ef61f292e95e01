// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"

#include <string>
#include <vector>

namespace tpx::formats::deepspeed {

/// One tensor of optimizer state: "exp_avg" of a group.
struct State {
    std::string name;
    torch::StoredTensor tensor;
};

/// What the optimizer keeps of one group: flat vectors with an entry for each of its elements, and scalars.
struct GroupState {
    std::vector<State> flat;
    std::vector<State> scalar;
};

/// The state of each group in an optimizer file of ZeRO 1 and 2, master weights ("fp32") first. Throws Error when it
/// holds something else than flat vectors and scalars.
std::vector<GroupState> partition_states(const torch::Archive& archive, torch::Value optimizer);

/// The same of ZeRO 3, for each sub-group.
std::vector<GroupState> subgroup_states(const torch::Archive& archive, torch::Value optimizer);

/// The value of a tensor of one element, for comparisons and messages.
std::string scalar_text(const torch::Archive& archive, const torch::StoredTensor& tensor);

}  // namespace tpx::formats::deepspeed
