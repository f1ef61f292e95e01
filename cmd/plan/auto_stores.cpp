// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/auto_stores.hpp"

#include "cmd/jobs/open_checkpoint.hpp"
#include "cmd/plan/plan_hosts.hpp"
#include "formats/files/merged_stores.hpp"
#include "formats/files/stores_check.hpp"
#include "lib/core/error.hpp"

namespace tpx::cli {

ComparedLayouts compare_layouts_in_stores(const PlanOptions& options) {
    if (options.hosts.empty() && options.hardware.empty()) throw Error{Exit::usage, "--stores needs --hosts"};
    const std::vector<Host> hosts = hosts_from_options(options, 1);
    const formats::MergedStores merged{options.stores, hosts};
    PlanOptions plan = options;
    plan.checkpoint = merged.folder();
    plan.stores.clear();
    plan.state = "stores";
    ComparedLayouts found;
    merged.in_stores([&] {
        const ReadRecord record;
        const OpenedCheckpoint opened = open_checkpoint(merged.folder(), options);
        const formats::Checkpoint& checkpoint = opened.source.checkpoint;
        formats::check_one_checkpoint(options.stores, hosts, merged.folder(), checkpoint, record);
        const auto holders = formats::hosts_of_files(options.stores, hosts, merged.folder(), checkpoint.catalogue);
        found = compare_layouts(plan, opened, {hosts, holders});
    });
    return found;
}

}  // namespace tpx::cli
