// SPDX-License-Identifier: Apache-2.0
#include "lib/model/techniques.hpp"

#include <algorithm>

namespace tpx {

bool uses(const ExecutionPlan& plan, std::string_view technique) {
    if (technique == "tp") return plan.tp > 1;
    if (technique == "pp") return plan.pp > 1;
    if (technique == "zero") return plan.zero > 0;
    if (technique == "sp") return plan.sequence;
    if (technique == "recompute") return plan.recompute != Recompute::none;
    if (technique == "offload") return plan.offload;
    return plan.accumulation > 1;
}

bool uses_any(const ExecutionPlan& plan, std::span<const std::string_view> excluded) {
    return std::ranges::any_of(excluded, [&](std::string_view technique) { return uses(plan, technique); });
}

}  // namespace tpx
