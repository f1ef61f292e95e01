// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/state/role.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tpx::formats {

/// The keys under which training scripts store a model's state_dict(), in the order in which they are tried.
inline constexpr std::array<std::string_view, 6> weight_keys{"model",  "state_dict", "model_state_dict",
                                                             "module", "net",        "network"};

/// The prefixes that DDP, torch.compile and DeepSpeed add to every key of a model's state_dict().
inline constexpr std::array<std::string_view, 3> wrappers{"module.", "_orig_mod.", "_forward_module."};

/// `name` without the prefixes that wrappers of the model have added.
std::string unwrapped(std::string_view name);

/// The role of what an optimizer's state_dict() calls `state`: the role of that name if there is one, otherwise
/// Role::state.
Role role_of_state(std::string_view state);

/// NAME and "exp_avg" of the entry "state.NAME.exp_avg" of an optimizer's state_dict(); unset for other entries.
std::optional<std::pair<std::string, std::string>> state_entry(std::string_view entry);

/// Whether a tensor of this name is a buffer of torch's normalization layers, although it contains real numbers.
bool is_running_statistic(std::string_view name);

/// The note for optimizer state whose parameter numbers cannot be resolved.
inline constexpr const char* unresolved_numbers_note =
    "the optimizer's state has only parameter numbers, and the model's tensors do not determine which parameters they "
    "refer to: the state keeps its names";

}  // namespace tpx::formats
