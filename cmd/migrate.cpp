// SPDX-License-Identifier: Apache-2.0
#include "cmd/migrate.hpp"

#include "cmd/memory_bound.hpp"
#include "cmd/output.hpp"
#include "cmd/output_mode.hpp"
#include "cmd/ranks.hpp"
#include "formats/stores.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/agreement.hpp"
#include "lib/exec/draft_files.hpp"
#include "lib/exec/publish.hpp"
#include "lib/exec/signals.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

/// Runs `body`, which may communicate with some of the ranks; fails on all if it failed on any.
template <class Body>
void together(const mpi::Comm& comm, Body&& body) {
    std::exception_ptr error;
    try {
        body();
    } catch (...) {
        error = std::current_exception();
    }
    mpi::agree_on(comm, error);
}

/// Makes the files of one host: receives what the host lacks, then writes them, all but their final names.
struct HostRun {
    const mpi::Comm& all;
    const mpi::Comm& host;  // the ranks of this host
    const Crew& crew;
    const Migration& job;
    const HostPart& part;
    const PartialDirectory& partial;
    fs::path inbox;

    Exchanged exchange(const ExecOptions& exec) const {
        if (crew.rank_of_host[crew.host] != all.rank()) return {};
        const Side held{job.conversion.source_tensors, part.held};
        Packer packer{job.cells, held, part.files};
        return tpx::exchange(all,
                             {job.change.parcels, job.change.relocation.transfers, crew.rank_of_host, crew.host,
                              part.inbox, packer, inbox},
                             exec);
    }

    Report write(const ExecOptions& exec) const {
        mpi::barrier(host);  // all that is received is in the inbox
        const Report report = execute(host, part.moves, {job.conversion.source_tensors, part.sources}, part.files,
                                      {job.conversion.target_tensors, part.targets}, part.draft, partial.path(), exec);
        mpi::all_or_none(host, [&] {
            if (host.rank() == 0 && ::unlink(inbox.c_str()) != 0) throw system_failure(inbox, errno);
        });
        return report;
    }
};

Naming naming_of(const MigrateOptions& options, const fs::path& output, std::uint64_t request, const Draft& draft) {
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
    const fs::path folder = fs::absolute(store).lexically_normal(), inside = fs::absolute(output).lexically_normal();
    if (std::ranges::mismatch(folder, inside).in1 == folder.end())
        throw failure("{}: is inside the store {}", output.string(), store.string());
}

/// Sums over the hosts what their ranks did.
MigrateDone sum_of(const mpi::Comm& comm, const Crew& crew, bool is_first_of_host, const Report& own,
                   const Exchanged& exchanged) {
    const std::size_t hosts = crew.hosts.size();
    std::vector<std::uint64_t> sums(3 + 2 * hosts);
    if (is_first_of_host) {
        sums = {own.bytes_read, own.bytes_written, own.bytes_kept};
        sums.resize(3 + 2 * hosts);
        sums[3 + crew.host] = exchanged.sent;
        sums[3 + hosts + crew.host] = exchanged.received;
    }
    mpi::all_sum(comm, sums);
    MigrateDone done;
    done.report.bytes_read = sums[0];
    done.report.bytes_written = sums[1];
    done.report.bytes_kept = sums[2];
    done.sent.assign(sums.begin() + 3, sums.begin() + 3 + std::ssize(crew.hosts));
    done.received.assign(sums.begin() + 3 + std::ssize(crew.hosts), sums.end());
    return done;
}

ExecOptions limits_of(const mpi::Comm& comm, const MigrateOptions& options, const Migration& job) {
    ExecOptions exec;
    // An exchange takes no more than the least buffers that this leaves, and ends before they are used.
    if (options.limits.memory) exec = limits_within(comm, *options.limits.memory, metadata_of(job.conversion, {}));
    set_workers(comm, options.limits, exec);
    return exec;
}

/// Gives all hosts' files their final names, once all are on disk everywhere.
void commit(const mpi::Comm& comm, const mpi::Comm& host, const Draft& draft, PartialDirectory& partial) {
    together(comm, [&] { DraftFiles{host, draft, partial.path()}.give_names(); });
    std::string fault;
    try {
        together(comm, [&] { fault = partial.commit().fault; });
    } catch (const mpi::AgreedError& error) {
        throw mpi::AgreedError{Error{exit_after_commit, "{}; outputs of other hosts may be in place", error.what()}};
    }
    together(comm, [&] {
        if (!fault.empty()) throw Error{exit_after_commit, "{}", fault};
    });
}

/// What was made on this host and is not in place yet.
struct Made {
    Report report;
    Exchanged exchanged;
};

Made make(const HostRun& run, const ReadRecord& record, std::uint64_t request, ExecOptions exec,
          const StopSignals& signals) {
    exec.cancelled = &signals.signal();
    exec.journal = JournalPlace{run.partial.path(), request, run.partial.attempt()};
    Made made;
    made.exchanged = run.exchange(exec);
    together(run.all, [&] { made.report = run.write(exec); });
    together(run.all, [&] { check_unchanged(run.host, record); });
    return made;
}

/// Moves the state; `mirror` is gone before any payload is read, as its files have none.
MigrateDone move(const mpi::Comm& comm, const MigrateOptions& options, const Crew& crew, const Migration& job,
                 std::optional<Mirror>& mirror, const ReadRecord& record, const ExecOptions& limits,
                 Patience& patience) {
    const StopSignals signals;
    const mpi::Comm host = mpi::Comm::split(comm, static_cast<int>(crew.host));
    const std::uint64_t request = agreed_request(comm, options, job, record, host.rank() == 0);
    std::optional<HostPart> part;
    std::optional<PartialDirectory> partial;
    fs::path output;
    mpi::all_or_none(comm, [&] {
        const Host& own = crew.hosts[crew.host];
        const fs::path store = formats::store_of(options.plan.stores, own);
        output = formats::store_of(options.output, own);
        check_place(store, output);
        if (path_exists(store)) ::umask(::umask(0777) | static_cast<mode_t>(denied_modes(record, store, output)));
        make_directories(parent_of(output));
        part.emplace(part_of_host(job, *mirror, crew.host, store, {}));
    });
    mirror.reset();
    together(comm, [&] { partial.emplace(host, naming_of(options, output, request, part->draft)); });
    patience.set_end("; unfinished outputs are kept; run the same command to continue");
    const fs::path inbox = partial->path() / "tpx.inbox";
    part->files.back().path = inbox;
    try {
        const Made made = make({comm, host, crew, job, *part, *partial, inbox}, record, request, limits, signals);
        patience.set_end("; outputs that exist are complete", exit_after_commit);
        commit(comm, host, part->draft, *partial);
        return sum_of(comm, crew, host.rank() == 0, made.report, made.exchanged);
    } catch (const mpi::AgreedError& error) {
        partial->keep();
        if (error.exit() == exit_after_commit) throw;
        throw mpi::AgreedError{Error{error.exit(),
                                     "{}; what is written is kept; run the same command to continue, or add --restart "
                                     "to start over",
                                     error.what()}};
    } catch (const Error&) {
        partial->keep();
        throw;
    }
}

Exit migrate(const mpi::Comm& comm, const MigrateOptions& options, Patience& patience, Output& out) {
    const auto start = std::chrono::steady_clock::now();
    const Crew crew = crew_of(comm, options);
    fs::path store;
    mpi::all_or_none(comm, [&] {
        store = formats::store_of(options.plan.stores, crew.hosts[crew.host]);
        formats::store_of(options.output, crew.hosts[crew.host]);
    });
    ReadRecord record;
    std::optional<Mirror> mirror{std::in_place, comm, store, static_cast<int>(crew.host)};
    record.seal();
    const Migration job = agreed_migration(comm, options, crew, *mirror);
    const ExecOptions limits = limits_of(comm, options, job);
    if (options.dry_run) {
        report(job, options, nullptr, out);
        return Exit::success;
    }
    MigrateDone done = move(comm, options, crew, job, mirror, record, limits, patience);
    done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report(job, options, &done, out);
    return Exit::success;
}

}  // namespace

void run_migrate(const MigrateOptions& options, Output& out) {
    in_ranks([&](const mpi::Comm& comm) {
        return with_patience(comm, options.limits.patience, [&](Patience& patience) {
            const Exit exit = migrate(comm, options, patience, out);
            out.finish();
            return exit;
        });
    });
}

}  // namespace tpx::cli
