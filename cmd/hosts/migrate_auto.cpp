// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migrate_auto.hpp"

#include "cmd/plan/auto_layouts.hpp"

#include <algorithm>

namespace tpx::cli {

std::string choose_layout(const MigrateRequest& options, const std::vector<Host>& hosts, Migration& job) {
    PlanOptions plan = options.plan;
    plan.checkpoint = job.origin.folder;
    plan.stores.clear();  // these include the stores of other hosts, which only the ranks there can read
    plan.state = "stores";
    OpenedCheckpoint opened = job.opened;
    opened.copies_are_equal = true;  // compared once the layout is known
    const ComparedLayouts found = compare_layouts(plan, opened, {hosts, job.holders});
    const ReachableLayout& best = found.layouts.front();
    job.choice = LayoutChoice{found.layouts.size(), found.split + found.too_large + found.excluded, best.crossing};
    if (plan.from.empty()) return to_string(best.layout);
    // Keep the current layout if no other one moves fewer bytes, so that repeating the command changes nothing.
    const Layout current = parse_layout(plan.from);
    Layout even = current;
    even.vn_parts.clear();
    const auto same = std::ranges::find(found.layouts, even, &ReachableLayout::layout);
    const bool stays = same != found.layouts.end() && same->is_exact && same->crossing <= best.crossing;
    return to_string(stays ? current : best.layout);
}

}  // namespace tpx::cli
