// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/prune_stores.hpp"

#include "cmd/hosts/migrate_files.hpp"
#include "lib/core/error.hpp"
#include "lib/exec/agreement.hpp"

namespace tpx::cli {

void prune(const ManagedRun& run, const std::vector<bool>& hosts, Output& out) {
    std::string kept;  // the states of this host that are in use
    mpi::all_or_none(run.comm, [&] {
        if (run.host.rank() != 0 || !hosts[run.team.host]) return;
        const std::string current = run.store.current();
        for (const std::string& state : run.store.states())
            if (state != current && epoch_of_name(state) <= epoch_of_name(current) &&
                !run.store.remove_unused_state(state))
                kept += (kept.empty() ? "" : ", ") + state;
        for (const std::string& name : run.store.stagings())
            if (!name.starts_with(replaced_current_prefix)) run.store.remove_staging(name);
    });
    const std::vector<std::string> hosts_of_ranks = mpi::all_gather(run.comm, std::to_string(run.team.host));
    const std::vector<std::string> all = mpi::all_gather(run.comm, kept);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
        if (!all[rank].empty())
            out.note("--prune: host '{}' keeps {}, which another tpx migrate is reading; prune again after it",
                     run.team.hosts[std::stoul(hosts_of_ranks[rank])].name, all[rank]);
}

std::string prune_after(const ManagedRun& run, Output& out) {
    std::vector<bool> hosts;
    for (const Host& host : run.team.hosts) hosts.push_back(has_live_devices(host));
    try {
        prune(run, hosts, out);
    } catch (const mpi::AgreedError& error) {
        return fmt::format("--prune: {}", error.what());
    }
    return {};
}

void prune_before(const ManagedRun& run, const ManagedJob& job) {
    if (!run.options.prune || job.is_import || run.options.within || run.host.rank() != 0 ||
        !run.survey.has_current[run.team.host])
        return;
    for (const std::string& state : run.store.states())
        if (epoch_of_name(state) < run.survey.manifest->epoch) run.store.remove_unused_state(state);
}

}  // namespace tpx::cli
