// SPDX-License-Identifier: Apache-2.0
#include "formats/training_keys.hpp"

#include <algorithm>

namespace tpx::formats {

std::string unwrapped(std::string_view name) {
    for (const std::string_view wrapper : wrappers)
        if (name.starts_with(wrapper)) name.remove_prefix(wrapper.size());
    return std::string{name};
}

std::string_view role_of_state(std::string_view state) {
    static constexpr std::array<std::string_view, 7> known{"exp_avg",         "exp_avg_sq", "step",          "master",
                                                           "momentum_buffer", "sum",        "max_exp_avg_sq"};
    if (state == "fp32") return "master";  // as DeepSpeed's universal checkpoints call it
    const auto* found = std::ranges::find(known, state);
    return found == known.end() ? std::string_view{"state"} : *found;
}

bool is_running_statistic(std::string_view name) {
    return name.ends_with(".running_mean") || name.ends_with(".running_var");
}

}  // namespace tpx::formats
