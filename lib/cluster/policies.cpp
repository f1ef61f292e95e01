// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/policies.hpp"

#include <algorithm>
#include <array>

namespace tpx {

std::span<const PolicyInfo> policies() {
    static constexpr std::array<PolicyInfo, 17> all{{
        {"fifo", "In order of arrival", make_fifo},
        {"fifo-backfill", "In order of arrival, gaps filled without delaying the first", make_fifo_backfill},
        {"srtf", "Shortest remaining time first, others are stopped", make_srtf},
        {"priority", "By priority, then arrival; nobody is stopped", make_priority},
        {"las", "Least attained service first, in levels", make_las},
        {"wfs", "Elastic weighted fair sharing: jobs grow and shrink", make_wfs},
        {"rubick", "Plans and GPUs by what they bring each job", make_rubick},
        {"rubick-e", "Rubick that changes execution plans alone", make_rubick_e},
        {"rubick-r", "Rubick that changes resources alone", make_rubick_r},
        {"rubick-n", "Rubick that changes neither", make_rubick_n},
        {"synergy", "In order of arrival, who does not fit is passed over", make_synergy},
        {"antman", "Guaranteed jobs stop best-effort ones", make_antman},
        {"sia", "Numbers of GPUs by goodput, every minute", make_sia},
        {"gavel", "Max-min fair shares of kinds of GPUs, in rounds", make_gavel},
        {"gavel-mixed", "The same, and jobs add idle GPUs of other kinds", make_gavel_mixed},
        {"gavel-virtualflow", "gavel as VirtualFlow's simulator runs it", make_gavel_simulator},
        {"gavel-mixed-virtualflow", "gavel-mixed as VirtualFlow's simulator runs it", make_gavel_mixed_simulator},
    }};
    return all;
}

const PolicyInfo* find_policy(std::string_view name) {
    const auto found = std::ranges::find(policies(), name, &PolicyInfo::name);
    return found == policies().end() ? nullptr : &*found;
}

}  // namespace tpx
