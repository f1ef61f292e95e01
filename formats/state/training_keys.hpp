// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/state/role.hpp"

#include <array>
#include <string>
#include <string_view>

namespace tpx::formats {

/// The keys under which training scripts keep a model's state_dict(), in the order in which they are tried.
inline constexpr std::array<std::string_view, 6> weight_keys{"model",  "state_dict", "model_state_dict",
                                                             "module", "net",        "network"};

/// What DDP, torch.compile and DeepSpeed put in front of every key of a model's state_dict().
inline constexpr std::array<std::string_view, 3> wrappers{"module.", "_orig_mod.", "_forward_module."};

/// `name` without what wrappers of the model have put in front of it.
std::string unwrapped(std::string_view name);

/// The role of what an optimizer's state_dict() calls `state`, the role of that name where there is one, else
/// Role::state.
Role role_of_state(std::string_view state);

/// Whether a tensor of this name is a buffer of torch's layers for normalisation, though its numbers are real.
bool is_running_statistic(std::string_view name);

/// Why state that is told by number only stays without parameters.
inline constexpr const char* numbers_leave_open =
    "which parameter the optimizer's state belongs to is told by number only, and the model's tensors leave it open: "
    "the state is kept as it is named";

}  // namespace tpx::formats
