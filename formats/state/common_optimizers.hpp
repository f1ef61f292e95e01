// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"

#include <initializer_list>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// A copy of dict `value` without some keys.
torch::Value without_keys(torch::Document& document, torch::Value value, std::initializer_list<std::string_view> keys);

/// One optimizer as a common state has it: its groups of parameters, and what stands beside them.
struct OptimizerState {
    torch::Value outer;                ///< a dict
    std::vector<torch::Value> groups;  ///< dicts without "params"
};

/// The optimizers of a common state, dense before experts, with masters or without; empty when it has none. Throws
/// Error when they are not of the form that Megatron writes.
std::vector<OptimizerState> optimizers_of(torch::Value common);

}  // namespace tpx::formats
