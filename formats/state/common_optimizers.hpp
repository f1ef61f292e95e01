// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "formats/state/adam.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// One optimizer of a common state: its groups of parameters, and the dict that contains them.
struct OptimizerState {
    torch::Value outer;                ///< a dict
    std::vector<torch::Value> groups;  ///< dicts without "params"
};

/// The optimizers of a common state, dense before experts, with masters or without; empty if there are none. Throws
/// Error unless they have the form that Megatron writes.
std::vector<OptimizerState> optimizers_of(torch::Value common);

/// One of Megatron's groups of parameters. Such a group does not name its parameters.
struct MegatronGroup {
    AdamSettings settings;
    double wd_mult = 1;
    std::int64_t step = 0;

    /// Sets the field that entry `key` contains.
    void read(std::string_view key, torch::Value value);
};

/// The settings of all parameters: groups with weight decay apply to matrices, those without to vectors.
Adam adam_of_groups(std::span<const MegatronGroup> groups);

}  // namespace tpx::formats
