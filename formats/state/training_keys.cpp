// SPDX-License-Identifier: Apache-2.0
#include "formats/state/training_keys.hpp"

#include <algorithm>

namespace tpx::formats {

std::string unwrapped(std::string_view name) {
    for (const std::string_view wrapper : wrappers)
        if (name.starts_with(wrapper)) name.remove_prefix(wrapper.size());
    return std::string{name};
}

Role role_of_state(std::string_view state) {
    static constexpr std::array known{Role::exp_avg,         Role::exp_avg_sq, Role::step,          Role::master,
                                      Role::momentum_buffer, Role::sum,        Role::max_exp_avg_sq};
    // The names of masters in DeepSpeed's checkpoints and in those of Megatron's two kinds of optimizers.
    if (state == "fp32" || state == "fp32_param" || state == "param") return Role::master;
    const auto role = role_by_name(state);
    return role && std::ranges::find(known, *role) != known.end() ? *role : Role::state;
}

std::optional<std::pair<std::string, std::string>> state_entry(std::string_view entry) {
    constexpr std::string_view states = "state.";
    const std::size_t dot = entry.rfind('.');
    if (!entry.starts_with(states) || dot <= states.size()) return std::nullopt;
    return std::pair{std::string{entry.substr(states.size(), dot - states.size())}, std::string{entry.substr(dot + 1)}};
}

bool is_running_statistic(std::string_view name) {
    return name.ends_with(".running_mean") || name.ends_with(".running_var");
}

}  // namespace tpx::formats
