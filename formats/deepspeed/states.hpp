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

/// The optimizer state of one group: flat vectors with one entry for each element, and scalars.
struct GroupState {
    std::vector<State> flat;
    std::vector<State> scalar;
};

/// The state of each group in an optimizer file of ZeRO 1 and 2, master weights ("fp32") first. Throws Error if it
/// contains anything other than flat vectors and scalars.
std::vector<GroupState> partition_states(const torch::Archive& archive, torch::Value optimizer);

/// The same for ZeRO 3, by sub-group.
std::vector<GroupState> subgroup_states(const torch::Archive& archive, torch::Value optimizer);

/// The value of a tensor of one element, for comparisons and messages.
std::string scalar_text(const torch::Archive& archive, const torch::StoredTensor& tensor);

}  // namespace tpx::formats::deepspeed
