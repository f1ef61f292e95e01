// SPDX-License-Identifier: Apache-2.0
#include "cmd/migrate/migrate.hpp"

#include "cmd/hosts/background_check.hpp"
#include "cmd/hosts/migrate_forecast.hpp"
#include "cmd/hosts/migrate_hold.hpp"
#include "cmd/hosts/migrate_launch.hpp"
#include "cmd/hosts/migrate_report.hpp"
#include "cmd/hosts/migrate_run.hpp"
#include "cmd/hosts/migration.hpp"
#include "cmd/jobs/disk_space.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/output/job_log.hpp"
#include "cmd/output/output.hpp"
#include "cmd/output/output_file.hpp"
#include "cmd/stores/migrate_managed.hpp"
#include "formats/files/merged_stores.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/draft_files.hpp"
#include "lib/exec/stop_signals.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>

// tpx migrate STORES OUT: from one plain folder on each host to another. --store is in migrate_managed.cpp.
namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

Naming naming_of(const MigrateRequest& options, const fs::path& output, std::uint64_t request, const Draft& draft) {
    return {
        .out = output,
        .check_replaceable = [](const fs::path& occupant) { throw failure("{}: already exists", occupant.string()); },
        .source = options.plan.stores,
        .request = request,
        .restart = options.restart,
        .is_complete = [&draft](const fs::path& folder) { return has_all_files(draft, folder); }};
}

/// The output must be new, and no part of what is read.
void check_place(const fs::path& store, const fs::path& output) {
    if (entry_exists(output)) throw failure("{}: already exists", output.string());
    if (is_inside(output, store)) throw failure("{}: is inside the store {}", output.string(), store.string());
}

/// Gives all hosts' files their final names, once all are on disk everywhere.
void commit(const mpi::Comm& comm, const mpi::Comm& host, const Draft& draft, PartialDirectory& partial) {
    run_together(comm, [&] { DraftFiles{host, draft, partial.path()}.rename_to_final(); });
    std::string fault;
    try {
        run_together(comm, [&] { fault = partial.commit().fault; });
    } catch (const mpi::AgreedError& error) {
        throw mpi::AgreedError{Error{exit_after_commit, "{}; outputs of other hosts may be in place", error.what()}};
    }
    run_together(comm, [&] {
        if (!fault.empty()) throw Error{exit_after_commit, "{}", fault};
    });
}

/// Moves the state, and calls `check` meanwhile. The mirror must be gone, because its files contain no payload.
MigrateResult move(const mpi::Comm& comm, const MigrateRequest& options, const Team& team, const Migration& job,
                   const ReadRecord& record, const ContentCheck& check, ExecOptions exec, const StopSignals& signals,
                   Patience& patience) {
    const mpi::Comm host = mpi::Comm::split(comm, static_cast<int>(team.host));
    const std::uint64_t request =
        agreed_request_digest(comm, job, options.plan.stores + '\n' + options.output, record, host.rank() == 0);
    std::optional<HostPart> part;
    std::optional<PartialDirectory> partial;
    fs::path output;
    mpi::all_or_none(comm, [&] {
        output = formats::store_of(options.output, team.hosts[team.host]);
        check_place(job.origin.own, output);
        limit_modes(record, job.origin.own, output);
        make_directories(parent_of(output));
        part.emplace(part_of_host(job, team.host, {}));
        const fs::path parent = parent_of(output);
        if (host.rank() == 0)
            check_disk_space(parent, bytes_on_disk(parent, part->draft.files, part->inbox.size()), parent,
                             output.filename().string() + ".partial-", "");
    });
    run_together(comm, [&] { partial.emplace(host, naming_of(options, output, request, part->draft)); });
    patience.set_end("; unfinished outputs are kept; run the same command to continue");
    exec.cancelled = &signals.signal();
    exec.journal = JournalPlace{partial->path(), request, partial->attempt()};
    const HostRun run{comm, host, team, job, *part};
    BackgroundCheck running{check};
    const MadeFiles made = keep_on_failure(*partial, [&] {
        MadeFiles files = make_files(run, partial->path(), record, exec);
        mpi::all_or_none(comm, [&] { running.wait(&signals.signal()); });
        return files;
    });
    mpi::all_or_none(comm, [&] { running.finish(); });  // if it fails, nothing is kept
    return keep_on_failure(*partial, [&] {
        patience.set_end("; outputs that exist are complete", exit_after_commit);
        commit(comm, host, part->draft, *partial);
        return sum_results(run, made);
    });
}

Exit migrate_folders(const mpi::Comm& comm, const MigrateRequest& options, Patience& patience, Output& out) {
    const auto start = std::chrono::steady_clock::now();
    const Team team = team_of(comm, options);
    check_hold_names(comm, options, team);
    check_launch(comm, options, team.hosts, {options.output});
    MigrationSource origin{.named = options.plan.stores};
    std::optional<StopSignals> signals{std::in_place};  // temporary folders are removed when a signal comes
    mpi::all_or_none(comm, [&] {
        PlainStore store = plain_store(options.plan.stores, team.hosts[team.host]);
        origin.own = std::move(store.folder);
        origin.held = std::move(store.held);
        formats::store_of(options.output, team.hosts[team.host]);
    });
    ReadRecord record;
    std::optional<Mirror> mirror{
        std::in_place, comm, origin.own, static_cast<int>(team.host), nullptr, formats::answer_file_question};
    record.seal();
    origin.folder = mirror->folder();
    origin.files = mirror->files();
    Migration job = plan_from_mirror(options, team, *mirror, origin, MigrateTarget::folders);
    mpi::all_or_none(comm, [&] {
        check_hold_of_parts(options, job);
        check_hold_memory(comm, options, team, job);
    });
    const ContentCheck check = origin.held ? ContentCheck{[](const std::atomic<bool>*) {}}  // documents name the save
                                           : check_stores(comm, job, *mirror, team);
    const ExecOptions limits = limits_of(comm, options, job);
    const std::string source = options.plan.stores;
    if (options.dry_run) {
        mpi::all_or_none(comm, [&] {
            check_place(job.origin.own, formats::store_of(options.output, team.hosts[team.host]));
            check(nullptr);
            if (comm.rank() == 0) job.forecast = forecast_of(job, options, {}, nullptr);
        });
        report(job, {source, options.output}, nullptr, out);
        return Exit::success;
    }
    mirror.reset();
    mpi::all_or_none(comm, [&] {
        check_not_stopped(&signals->signal(), " before anything was written; run the same command again");
    });
    MigrateResult done = move(comm, options, team, job, record, check, limits, *signals, patience);
    signals.reset();
    done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::string fault = report_done(comm, job, {source, options.output}, done, out);
    write_launch(comm, options, rank_places(job), {options.output});
    hold_state(comm, options, team, formats::store_of(options.output, team.hosts[team.host]), rank_places(job),
               HeldState::written, out);
    require_reported(fault, options.output);
    return Exit::success;
}

/// Checks the options that are valid only with managed stores or only with plain folders.
void check_plain_options(const MigrateRequest& options) {
    const bool managed = !options.store.empty();
    if (managed && !options.plan.stores.empty()) throw Error{Exit::usage, "--store cannot be used with STORES and OUT"};
    if (managed) return;
    if (options.output.empty()) throw Error{Exit::usage, "OUT is required, or --store"};
    if (options.plan.to.empty()) throw Error{Exit::usage, "--to is required"};
    const std::pair<const char*, bool> only_managed[] = {{"--import", !options.import_from.empty()},
                                                         {"--export", !options.export_to.empty()},
                                                         {"--background-rate", options.background_rate.has_value()},
                                                         {"--within", options.within.has_value()},
                                                         {"--job", !options.job.empty()},
                                                         {"--iteration", options.iteration.has_value()},
                                                         {"--rejoin", !options.rejoin.empty()},
                                                         {"--fallback", !options.fallback.empty()},
                                                         {"--prune", options.prune},
                                                         {"--data-store", !options.data_store.empty()},
                                                         {"--decision-dir", !options.decision_dir.empty()}};
    for (const auto& [name, given] : only_managed)
        if (given) throw Error{Exit::usage, "{}: requires --store", name};
}

}  // namespace

void run_migrate(const MigrateRequest& given, Output& out) {
    check_plain_options(given);
    // Without a reader, what is printed after the change must not end the process with another exit status.
    if (!given.dry_run) std::signal(SIGPIPE, SIG_IGN);
    run_on_ranks([&](const mpi::Comm& comm) {
        return with_patience(comm, given.limits.patience, [&](Patience& patience) {
            MigrateRequest options = given;
            mpi::all_or_none(comm, [&] {
                if (options.plan.to != "auto" && !(options.plan.without.empty() && options.plan.only.empty()))
                    throw usage_error("--without and --only require --to auto");
                open_job_log(options.limits.log);
                if (!options.data.empty()) options.position = formats::read_data_file(options.data);
                if (!options.assignment.empty() && options.plan.to.find("vn=[") != std::string::npos)
                    throw usage_error("--to {}: --assignment determines the parts; write vn=N", options.plan.to);
                if (!options.assignment.empty())
                    options.assigned = formats::parse_assignment(read_file(options.assignment, std::uint64_t{1} << 20),
                                                                 options.assignment);
            });
            const Exit exit = options.store.empty() ? migrate_folders(comm, options, patience, out)
                                                    : migrate_managed(comm, options, patience, out);
            mpi::all_or_none(comm, [&] { out.finish(); });
            return exit;
        });
    });
}

}  // namespace tpx::cli
