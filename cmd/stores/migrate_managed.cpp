// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/migrate_managed.hpp"

#include "cmd/hosts/migrate_files.hpp"
#include "cmd/hosts/migrate_hold.hpp"
#include "cmd/hosts/migrate_launch.hpp"
#include "cmd/hosts/migrate_report.hpp"
#include "cmd/hosts/migrate_run.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/stores/data_copies.hpp"
#include "cmd/stores/managed_check.hpp"
#include "cmd/stores/managed_dry_run.hpp"
#include "cmd/stores/managed_end.hpp"
#include "cmd/stores/managed_request.hpp"
#include "cmd/stores/managed_source.hpp"
#include "cmd/stores/managed_target.hpp"
#include "cmd/stores/migrate_leaving.hpp"
#include "cmd/stores/prune_stores.hpp"
#include "cmd/stores/store_locks.hpp"
#include "cmd/stores/store_switch.hpp"
#include "formats/driver.hpp"
#include "formats/files/merged_stores.hpp"
#include "formats/files/plan/host_names.hpp"
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/path.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/agreement.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

/// The rate of --background-rate for each of the processes on this host; nothing if it is not given.
std::optional<double> rate_of_process(const MigrateRequest& options, const mpi::Comm& host) {
    if (!options.background_rate) return std::nullopt;
    return *options.background_rate / host.size();
}

/// Requires a format with several files, so that each host can store some of them.
void check_format(const Migration& job) {
    const formats::Format format = job.target.format;
    if (!format->allows_other_files)
        throw Error{Exit::usage,
                    "a checkpoint of format {} is a single file, which stores cannot share; pass --format dcp",
                    formats::name(format)};
}

/// Requires that the number of virtual nodes does not change: it determines the samples of each virtual node.
void check_virtual_nodes_stay(const ManagedRun& run, const ManagedJob& job) {
    if (job.is_import) return;
    const int before = parse_layout(run.survey.manifest->layout).vn, after = job.migration.target.layout.vn;
    if (before > 0 && before != after)
        throw usage_error("layout: {}, but the state in the stores has vn={}, which cannot change",
                          after > 0 ? fmt::format("vn={}", after) : "no virtual nodes", before);
}

Exit export_state(const ManagedRun& run, ManagedJob& job, const ReadRecord& record, Patience& patience, Output& out,
                  std::chrono::steady_clock::time_point start) {
    const double rate = run.rate_limiter == nullptr ? 0 : run.rate_limiter->rate() * run.host.size();
    const MigratePaths places{run.options.store, run.options.export_to, {}, rate};
    mpi::all_or_none(run.comm, [&] {
        if (entry_exists(run.options.export_to)) throw failure("{}: already exists", run.options.export_to);
    });
    if (run.options.dry_run) {
        report_dry_run(run, job, places, nullptr, out);
        return Exit::success;
    }
    const std::uint64_t request =
        agreed_request_digest(run.comm, job.migration, run.options.export_to, record, run.host.rank() == 0);
    MigrateResult done = write_to_shared(run, job, request, record, patience);
    done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    require_reported(report_done(run.comm, job.migration, places, done, out), places.to);
    return Exit::success;
}

Exit change_state(const ManagedRun& run, ManagedJob& job, const std::string& request, const ReadRecord& record,
                  Patience& patience, Output& out, std::chrono::steady_clock::time_point start) {
    mpi::all_or_none(run.comm, [&] {
        if (run.options.dry_run && run.comm.rank() != 0) return;  // may not have planned
        check_format(job.migration);
        check_hold_of_parts(run.options, job.migration);
        check_hold_memory(run.comm, run.options, run.team, job.migration);
        check_virtual_nodes_stay(run, job);
    });
    const std::string from = run.options.import_from.empty() ? run.options.store : run.options.import_from;
    const MigratePaths places{from, run.options.store, run.options.store + "/current", 0, run.options.data_store};
    formats::Manifest manifest = planned_manifest(run, job, request);
    copy_data(run, job);
    if (run.options.dry_run) {
        const auto& leaving = job.migration.leaving;
        if (leaving && !leaving->sends.empty()) ++manifest.epoch;  // the state that is saved first has its own epoch
        report_dry_run(run, job, places, &manifest, out);
        return Exit::success;
    }
    ManagedResult made = write_to_stores(run, job, manifest, record, patience, out);
    if (run.stop != nullptr && *run.stop) (*run.stop)->shield();  // the state is in place
    if (job.saved) add(made.done, *job.saved);
    std::string fault = run.options.prune ? prune_after(run, out) : "";
    made.done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::string unreported = report_done(run.comm, job.migration, places, made.done, out, &made.manifest);
    if (fault.empty()) fault = unreported;
    write_launch(run.comm, run.options, rank_places(job.migration), {places.state, places.data_store});
    hold_managed(run, made.manifest, rank_places(job.migration), HeldState::written, out);
    require_reported(fault, places.state);
    return Exit::success;
}

/// Whether the state in the stores is the requested one. A dry run has compared its files by size only.
bool is_current(const ManagedRun& run, const StoreCheck& check, const std::string& request, Output& out) {
    if (run.options.dry_run)
        out.note("--dry-run compares files by size; without it, a run also compares their content with checksums");
    return is_done(run, check, request);
}

Exit import_state(const ManagedRun& run, MigrateRequest& options, Patience& patience, Output& out,
                  std::chrono::steady_clock::time_point start) {
    keep_replicas(run, options, out);
    ReadRecord record;
    ManagedJob job = plan_import(run, run.options.import_from, MigrateTarget::stores, record);
    const std::string request =
        hex(agreed_request_digest(run.comm, job.migration,
                                  request_text(run.options, run.team, to_string(job.migration.target.layout),
                                               std::string{formats::name(job.migration.target.format)}),
                                  record, run.host.rank() == 0));
    if (run.survey.manifest && run.survey.manifest->request == request &&
        is_current(run, check_current(run), request, out))
        return end_without_change(run, out);
    return change_state(run, job, request, record, patience, out, start);
}

/// The reason why no host has a state that can be changed.
Error no_state(const ManagedRun& run) {
    const std::string& store = run.options.store;
    if (std::ranges::all_of(run.survey.hosts, [](const StoreSummary& host) { return host.current.empty(); })) {
        if (std::ranges::none_of(run.team.hosts, &Host::lost))
            return failure("{}: no host has a current state; use --import CKPT first", store);
        return Error{Exit::no, "{}: no remaining host has a current state; use --import CKPT", store};
    }
    return Error{Exit::no, "{}: no host has an intact copy of the current state{}; use --import CKPT", store,
                 run.options.rejoin.empty() ? "" : " (the stores of --rejoin count as empty)"};
}

/// Changes or exports the current state, whose intact files are in `check`; `record` gets the files that are read.
Exit move_checked(ManagedRun& run, MigrateRequest& options, StoreCheck check, std::optional<ReadRecord>& record,
                  Patience& patience, Output& out, std::chrono::steady_clock::time_point start) {
    const bool exports = !options.export_to.empty();
    const MigrateTarget purpose = exports ? MigrateTarget::shared : MigrateTarget::stores;
    std::optional<ManagedJob> planned;
    if (options.plan.to == "auto") {
        options.plan.from = run.survey.manifest->layout;
        planned = replan_on_damage(run, [&] { return plan_from_stores(run, check, purpose, *record, out); });
        std::string layout = to_string(planned->migration.target.layout);
        mpi::broadcast(run.comm, layout);  // other ranks may not have planned
        options.plan.to = layout;          // so that the request names the layout
    }
    const std::string request = digest_of_request(run);
    if (!exports && is_done(run, check, request)) finish_check(run);
    if (is_current(run, check, request, out) && !exports) return end_without_change(run, out);
    for (const std::string& note : check.notes) out.note("{}", note);
    if (options.plan.to.empty()) options.plan.to = run.survey.manifest->layout;
    const std::optional<SavedFromLeaving> saved = save_from_leaving_hosts(run, check, patience, out, start);
    if (saved && saved->done) {  // record only the saved state, as a rerun after a crash would do
        record.reset();
        record.emplace();
    }
    const bool is_planned = planned && !saved;
    ManagedJob job = is_planned ? std::move(*planned) : replan_on_damage(run, [&] {
        return plan_from_stores(run, check, purpose, *record, out, saved ? saved->files : std::vector<StoredFile>{});
    });
    if (planned && saved) job.migration.choice = planned->migration.choice;
    if (saved) {
        job.migration.leaving = saved->plan;
        job.saved = saved->done;
    }
    return exports ? export_state(run, job, *record, patience, out, start)
                   : change_state(run, job, request, *record, patience, out, start);
}

/// Executes a run with --store and without --import. `damaged` is the damage that an earlier attempt has found; null:
/// the current state has not been compared yet.
Exit move_state(ManagedRun& run, MigrateRequest& options, Patience& patience, Output& out,
                std::chrono::steady_clock::time_point start, const StoreCheck* damaged) {
    const bool exports = !options.export_to.empty();
    if (!run.survey.manifest) throw mpi::AgreedError{no_state(run)};
    if (!exports && !asks_for_change(options)) {
        // --prune must not remove an earlier state that is intact if the current one is damaged.
        const StoreCheck check = options.prune && !options.dry_run ? check_current(run) : check_sizes(run);
        require_intact(run, check);
        if (!options.prune) require_on_hosts(run, check);
        return end_without_change(run, out);
    }
    if (!exports) keep_replicas(run, options, out);
    if (!exports) keep_virtual_nodes(run, options);
    std::optional<ReadRecord> record{std::in_place};
    const bool during_move = damaged == nullptr && !options.dry_run && checks_during_move(options);
    // check_sizes() adds the files to `record`, so that it is the same when an interrupted change continues.
    StoreCheck check = during_move || damaged != nullptr ? check_sizes(run) : check_current(run);
    if (damaged != nullptr) check = *damaged;
    std::optional<CheckDuringMove> running;
    if (during_move && check.lost_tensors.empty()) {
        running.emplace(run.host, run.team, run.store, run.survey, check, threads_of_check(run));
        run.check = &*running;
    }
    if (options.position) check_position_stays(run, replan_on_damage(run, [&] { return current_position(run); }));
    return move_checked(run, options, std::move(check), record, patience, out, start);
}

}  // namespace

Exit migrate_managed(const mpi::Comm& comm, const MigrateRequest& given, Patience& patience, Output& out) {
    const auto start = std::chrono::steady_clock::now();
    mpi::all_or_none(comm, [&] { check_managed_options(given); });
    mpi::all_or_none(comm, [&] { check_data_store(given); });
    MigrateRequest options = given;
    const Team team = team_of(comm, options);
    check_hold_names(comm, options, team);
    check_launch(comm, options, team.hosts, {options.store, options.data_store});
    const mpi::Comm host = mpi::Comm::split(comm, static_cast<int>(team.host));
    std::optional<NodeStore> store;
    std::vector<std::string> outdated;
    std::optional<RateLimiter> rate_limiter;
    std::optional<StopSignals> stop;
    if (!options.dry_run) stop.emplace();
    mpi::all_or_none(comm, [&] {
        if (const auto rate = rate_of_process(options, host)) rate_limiter.emplace(*rate);
        outdated = rejoining_hosts(options, team);
        if (!options.decision_dir.empty()) options.decision_dir = fs::absolute(options.decision_dir);
        if (!options.decision_dir.empty() && !path_is_directory(options.decision_dir))
            throw failure("--decision-dir {}: there is no such folder on this host", options.decision_dir);
        store.emplace(fs::absolute(formats::store_of(options.store, team.hosts[team.host])));
        if (!options.export_to.empty()) check_export_place(options.export_to, store->folder());
        if (!options.fallback.empty() && options.fallback.find("{host}") == options.fallback.npos &&
            !path_exists(options.fallback))
            out.note("--fallback {}: does not exist", options.fallback);
    });
    OpenStores stores = open_stores(comm, host, team, *store, options, outdated, out);
    ManagedRun run{comm, host, options, team, *store, std::move(stores.survey), rate_limiter ? &*rate_limiter : nullptr,
                   &stop};
    for (std::size_t h = 0; h < team.hosts.size(); ++h)
        if (!run.survey.hosts[h].fault.empty())
            out.note("host '{}': its current state is not used: {}", team.hosts[h].name, run.survey.hosts[h].fault);
    if (!options.import_from.empty()) return import_state(run, options, patience, out, start);
    try {
        return move_state(run, options, patience, out, start, nullptr);
    } catch (const DamagedState& state) {
        run.check = nullptr;
        options.plan.to = given.plan.to;  // the first attempt has replaced "auto" with a layout
        return move_state(run, options, patience, out, start, &state.check);
    }
}

}  // namespace tpx::cli
