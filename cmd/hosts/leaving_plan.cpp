// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/leaving_plan.hpp"

#include "cmd/jobs/host_times.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/wire/transfer_schedule.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace tpx::cli {
void add_times(LeavingPlan& plan, const Change& change, const std::vector<bool>& leaving) {
    HostTimes rates{plan.assumed};
    double writing = 0;
    for (std::size_t h = 0; h < change.hosts.size(); ++h) {
        const Host& host = change.hosts[h];
        const Load& load = change.relocation.hosts[h];
        if (leaving[h]) {
            plan.send_seconds =
                std::max({plan.send_seconds, rates.nic(load.nic_out, host), rates.read(load.disk_read, host)});
            continue;
        }
        // A host writes what it receives to an inbox as it arrives.
        plan.send_seconds = std::max({plan.send_seconds, rates.nic(load.nic_in, host), rates.write(load.nic_in, host)});
        const double read = rates.read(load.disk_write, host);
        writing = std::max(writing, std::max(read, rates.write(load.disk_write, host)) + read);
    }
    plan.seconds = plan.send_seconds + writing;
    std::ranges::sort(plan.assumed);
}

void add_transfers(LeavingPlan& plan, const Change& change) {
    plan.sends.assign(change.hosts.size(), 0);
    plan.receives.assign(change.hosts.size(), 0);
    for (const Transfer& transfer : change.relocation.transfers) {
        plan.sends[transfer.from] += transfer.end - transfer.begin;
        plan.receives[transfer.to] += transfer.end - transfer.begin;
    }
    plan.messages = count_messages(change.parcels, change.relocation.transfers, change.hosts.size());
}

std::string describe_leaving(const LeavingPlan& plan) {
    if (plan.files == 0) return "leaving hosts have no file that other hosts lack";
    const std::string what = fmt::format("{} of which only leaving hosts have a copy ({})", counted(plan.files, "file"),
                                         format_size(plan.bytes));
    const std::string times = fmt::format("takes {}, {} left", format_seconds(plan.seconds),
                                          plan.left() > 0 ? format_seconds(plan.left()) + " are" : "no time is");
    const std::string rates =
        plan.assumed.empty() ? "" : fmt::format("; assumed rates: {}", fmt::join(plan.assumed, ", "));
    return fmt::format("{} {} be saved in time: saving {}{}", what, plan.is_in_time() ? "can" : "cannot", times, rates);
}

}  // namespace tpx::cli
