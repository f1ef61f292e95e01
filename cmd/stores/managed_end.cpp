// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/managed_end.hpp"

#include "cmd/hosts/migrate_launch.hpp"
#include "cmd/hosts/migrate_report.hpp"
#include "cmd/stores/data_copies.hpp"
#include "cmd/stores/prune_stores.hpp"
#include "cmd/stores/staged_state.hpp"
#include "formats/files/merged_stores.hpp"
#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

CurrentRanks current_ranks(const ManagedRun& run) {
    CurrentRanks ranks{.batch = static_cast<int>(run.options.plan.batch.value_or(0)),
                       .position = current_position(run)};
    if (run.options.assigned) ranks.batch = run.options.assigned->batch;
    if (!ranks.position.is_null()) ranks.batch = ranks.position.at("global_batch");
    ranks.places = rank_places(*run.survey.manifest, run.team.hosts, ranks.batch);
    return ranks;
}

/// With --rejoin, removes damaged records of this host, which a change would have replaced.
void remove_damaged_records(const ManagedRun& run) {
    mpi::all_or_none(run.comm, [&] {
        if (run.host.rank() == 0 && !run.options.rejoin.empty() && !run.options.dry_run)
            run.store.remove_damaged_records();
    });
}

}  // namespace

nlohmann::ordered_json current_position(const ManagedRun& run) {
    const auto host = std::ranges::find(run.survey.has_current, true) - run.survey.has_current.begin();
    if (host == std::ssize(run.survey.has_current)) return nullptr;
    const int reader = run.team.rank_of_host[static_cast<std::size_t>(host)];
    std::string text = "null";
    mpi::all_or_none(run.comm, [&] {
        if (run.comm.rank() != reader) return;
        const auto position = formats::read_data_position(run.store.state(state_name(*run.survey.manifest)));
        if (position) text = to_json(*position).dump();
    });
    mpi::broadcast(run.comm, text, reader);
    return nlohmann::ordered_json::parse(text);
}

void hold_managed(const ManagedRun& run, const formats::Manifest& manifest, const RankPlaces& places, HeldState state,
                  Output& out) {
    if (run.stop != nullptr) run.stop->reset();  // hold_state() notices signals on its own
    hold_state(run.comm, run.options, run.team, run.store.state(state_name(manifest)), places, state, out);
}

Exit end_without_change(const ManagedRun& run, Output& out) {
    remove_damaged_records(run);
    if (run.options.prune && !run.options.dry_run) prune(run, run.survey.has_current, out);
    CurrentRanks ranks = current_ranks(run);
    ranks.data_store = run.options.data_store;
    ranks.data_copies = copy_data_of_current(run, ranks.position, ranks.places ? &*ranks.places : nullptr);
    if (const std::string hosts = hosts_with_staging(run); !hosts.empty() && !run.options.prune)
        out.note(
            "staging of {} contains files of an unfinished change; the command of that change continues it, and "
            "another change or --prune removes the files",
            hosts);
    mpi::all_or_none(run.comm, [&] {
        report_current(run.options.store, *run.survey.manifest, ranks, out);
        out.finish();
    });
    if ((run.options.hold.empty() && run.options.plan.launch.empty()) || run.options.dry_run) return Exit::success;
    if (!ranks.places)
        throw mpi::AgreedError{
            failure("{}: some ranks of the state have no device on these hosts, as {} requires; use --to to place them",
                    run.options.store, run.options.hold.empty() ? "--launch" : "--hold")};
    write_launch(run.comm, run.options, *ranks.places, {run.options.store + "/current", run.options.data_store});
    hold_managed(run, *run.survey.manifest, *ranks.places, HeldState::unchanged, out);
    return Exit::success;
}

}  // namespace tpx::cli
