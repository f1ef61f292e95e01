// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/policies.hpp"

#include <algorithm>
#include <array>

namespace tpx {

std::span<const PolicyInfo> policies() {
    static constexpr std::array<PolicyInfo, 17> all{{
        {"fifo", "In order of arrival; jobs that do not fit block later jobs", make_fifo},
        {"fifo-backfill", "In order of arrival; later jobs fill gaps if they delay none", make_fifo_backfill},
        {"srtf", "Shortest remaining time first, with preemption", make_srtf},
        {"priority", "By priority, then in order of arrival; no preemption", make_priority},
        {"las", "Least attained service first, in levels, with preemption", make_las},
        {"wfs", "Elastic weighted fair sharing (VirtualFlow); resizes jobs", make_wfs},
        {"rubick", "Rubick: plans and GPUs that maximize total relative speed", make_rubick},
        {"rubick-e", "Rubick, but changes execution plans only", make_rubick_e},
        {"rubick-r", "Rubick, but changes resources only", make_rubick_r},
        {"rubick-n", "Rubick, but changes neither plans nor resources", make_rubick_n},
        {"synergy", "In order of arrival, skipping jobs that do not fit", make_synergy},
        {"antman", "Guaranteed jobs preempt best-effort jobs", make_antman},
        {"sia", "Numbers of GPUs that maximize goodput, every minute", make_sia},
        {"gavel", "Max-min fair time shares of GPU types, in rounds", make_gavel},
        {"gavel-mixed", "gavel; jobs also use idle GPUs of other types", make_gavel_mixed},
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
