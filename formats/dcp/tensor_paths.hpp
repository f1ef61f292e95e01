// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpx::formats {

/// The keys of nested dicts and lists that lead to a tensor, numbers as text: {"optim", "state", "0", "exp_avg"}.
using KeyNames = std::vector<std::string>;

struct TensorPath {
    std::uint32_t tensor = 0;  ///< its number in the catalogue
    KeyNames path;
};

/// The paths of the tensors for which the checkpoint's planner data has one, in the order of the saved dicts.
std::vector<TensorPath> tensor_paths(const Checkpoint& checkpoint);

/// The keys with dots between them.
std::string joined(std::span<const std::string> keys);

/// The number that a key is; unset for other text.
std::optional<std::int64_t> key_number(const std::string& key);

}  // namespace tpx::formats
