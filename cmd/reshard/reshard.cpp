// SPDX-License-Identifier: Apache-2.0
#include "cmd/reshard/reshard.hpp"

#include "cmd/cli/positive.hpp"
#include "cmd/hold/hold_output.hpp"
#include "cmd/jobs/check_copies.hpp"
#include "cmd/jobs/direct_note.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/jobs/memory_bound.hpp"
#include "cmd/jobs/output_mode.hpp"
#include "cmd/jobs/ranks.hpp"
#include "cmd/jobs/read_once.hpp"
#include "cmd/jobs/reading.hpp"
#include "cmd/jobs/reshard_job.hpp"
#include "cmd/jobs/same_job.hpp"
#include "cmd/jobs/storage_bound.hpp"
#include "cmd/jobs/stored_plan.hpp"
#include "cmd/output/job_log.hpp"
#include "cmd/output/output.hpp"
#include "cmd/output/output_file.hpp"
#include "cmd/output/progress.hpp"
#include "cmd/reshard/check_written.hpp"
#include "cmd/reshard/reshard_checks.hpp"
#include "cmd/reshard/reshard_output.hpp"
#include "cmd/reshard/reshard_report.hpp"
#include "cmd/reshard/trace_file.hpp"
#include "cmd/version.hpp"
#include "formats/driver.hpp"
#include "formats/files/plan/hosts_file.hpp"
#include "formats/replaceable.hpp"
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/in_path.hpp"
#include "lib/core/path.hpp"
#include "lib/core/unfinished.hpp"
#include "lib/core/write_file.hpp"
#include "lib/exec/draft_files.hpp"
#include "lib/exec/execute.hpp"
#include "lib/exec/move_digests.hpp"
#include "lib/exec/publish.hpp"
#include "lib/exec/signals.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace tpx::cli {
namespace {

/// The files of an output that is not finished.
std::vector<SourceFile> draft_files(const Draft& draft, const std::filesystem::path& directory) {
    std::vector<SourceFile> files;
    for (const FileEntry& file : draft.files) files.push_back({unfinished_name(directory / file.path)});
    return files;
}

/// Throws an mpi::AgreedError if a rank was asked to stop. Collective.
void check_none_stopped(const mpi::Comm& comm, const StopSignals& signals) {
    mpi::all_or_none(comm, [&] { check_not_stopped(&signals.signal()); });
}

/// What this process may use, and what stops it; `signals` may be null.
ExecOptions limits_of(const mpi::Comm& comm, const ReshardOptions& options, const ReshardJob& job,
                      const StopSignals* signals) {
    ExecOptions exec;
    if (options.memory) exec = limits_within(comm, *options.memory, metadata_of(job.conversion, job.moves));
    set_workers(comm, options, exec);
    if (signals != nullptr) exec.cancelled = &signals->signal();
    return exec;
}

Report move(const mpi::Comm& comm, const ReshardJob& job, const std::filesystem::path& directory, ExecOptions exec,
            Output& out) {
    std::optional<Progress> progress;
    exec.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view slowest) {
        if (!progress) progress.emplace(out, "reshard", total);
        progress->update(done, slowest);
    };
    const formats::Conversion& conversion = job.conversion;
    return execute(comm, job.moves, conversion.source_side(), formats::paths(job.opened.source.checkpoint.catalogue),
                   conversion.target_side(), conversion.draft, directory, exec);
}

/// A stretch of time of the main thread, for --trace.
class Phase {
public:
    Phase(Trace& trace, std::string_view name) : trace_{trace}, name_{name} {}
    ~Phase() { trace_.add(0, name_, begin_, Trace::Clock::now()); }
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

private:
    Trace& trace_;
    std::string_view name_;
    Trace::Clock::time_point begin_ = Trace::Clock::now();
};

/// Of a run that has failed; that it cannot be written is only a note then.
void write_trace(const mpi::Comm& comm, const ReshardOptions& options, const Trace& trace, const Output& out) {
    if (options.trace.empty()) return;
    const std::string text = trace_json(comm, trace);
    try {
        if (comm.rank() == 0) write_file(options.trace, text);
    } catch (const Error& error) {
        out.note("{}", error.what());
    }
}

/// All that is read, so that no output takes its place.
std::vector<std::filesystem::path> sources_of(const ReshardOptions& options, const ReshardJob& job,
                                              const ReadRecord& record) {
    std::vector<std::filesystem::path> sources{options.checkpoint};
    if (path_is_directory(options.checkpoint)) sources.push_back(job.opened.source.checkpoint.catalogue.directory);
    for (const auto& [path, file] : record.files()) sources.push_back(path);
    if (!options.hardware.empty()) sources.emplace_back(options.hardware);
    return sources;
}

/// Files and folders that are made from now on give nobody what the checkpoint, or the output that is replaced, denies.
void limit_modes(const mpi::Comm& comm, const ReshardOptions& options, const ReshardJob& job,
                 const ReadRecord& record) {
    unsigned denied = 0;
    mpi::all_or_none(comm, [&] {
        if (comm.rank() != 0) return;
        const auto& folder = job.opened.source.checkpoint.catalogue.directory;
        const bool single = !path_is_directory(options.checkpoint);
        denied = denied_modes(record, single ? folder : std::filesystem::path{options.checkpoint}, options.output);
    });
    std::string bits = std::to_string(denied);
    mpi::broadcast(comm, bits);
    ::umask(::umask(0777) | static_cast<mode_t>(std::stoul(bits)));
}

/// Runs `body` on rank 0; an error in it ends all ranks with a status and words that say that the output is there.
template <class Body>
void after_commit(const mpi::Comm& comm, const std::string& output, Body&& body) {
    std::string fault;
    try {
        if (comm.rank() == 0) mpi::run_watched(body);
    } catch (const std::exception& error) {
        fault = error.what();
    }
    mpi::broadcast(comm, fault);
    if (!fault.empty())
        throw mpi::AgreedError{Error{exit_after_commit, "{}; {} is complete and in place", fault, output}};
}

/// What the output is made of and by which program, the same on all ranks. Options are left out: those that matter
/// change what is written, which `claims` describe.
std::uint64_t request_digest(const mpi::Comm& comm, std::span<const Claim> claims, const ReadRecord& record,
                             const std::filesystem::path& source) {
    Fingerprint print;
    print.add(digest_of(claims));
    print.add(std::string_view{version_text});
    print.add(path_exists(source) ? real_path(source).string() : source.string());
    // Times of modification can be set, and some file systems know none.
    for (const auto& [path, file] : record.files()) {
        if (path.native().starts_with("/proc/self/")) continue;  // zeros for missing parts
        print.add(file.inode);
        print.add(static_cast<std::uint64_t>(file.changed));
    }
    std::string digest = std::to_string(print.value());
    mpi::broadcast(comm, digest);
    return std::stoull(digest);
}

/// Opens the checkpoint and plans the job, the same on all ranks.
ReshardJob agreed_job(const mpi::Comm& comm, const ReshardOptions& options, const StopSignals* signals,
                      ReadRecord& record, Trace& trace) {
    const Phase phase{trace, "open and plan"};
    ReshardJob job;
    read_once(comm, options.checkpoint, [&] {
        job = prepare(options);
        if (!options.dry_run) read_recorded(options, job);
    });
    record.seal();
    require_same(comm, claims_of_options(options, job));
    const std::vector<Claim> claims = claims_of_job(comm, record, job.opened.source, job.conversion, job.moves);
    require_same(comm, claims);
    job.request = request_digest(comm, claims, record, options.checkpoint);
    if (signals != nullptr) check_none_stopped(comm, *signals);
    if (job.conversion.dropped_copies.empty()) return job;
    const ExecOptions exec = limits_of(comm, options, job, signals);
    in_path(options.checkpoint,
            [&] { check_copies(comm, job.conversion, job.opened.source.checkpoint.catalogue, exec); });
    if (signals != nullptr) check_none_stopped(comm, *signals);
    return job;
}

/// Writes the output beside its final place, all of it, and checks that what it was made of is what it was.
void fill(const mpi::Comm& comm, const ReshardOptions& options, ReshardJob& job, const ReadRecord& record,
          ExecOptions exec, const PartialDirectory& partial, Patience& patience, Trace& trace, Output& out,
          ReshardDone& done) {
    const std::filesystem::path& directory = partial.path();
    exec.trace = options.trace.empty() ? nullptr : &trace;
    exec.journal = JournalPlace{directory, job.request, partial.attempt()};
    patience.set_end(fmt::format("; {} is kept; run the same command to continue", directory.string()));
    ReadDigests read{comm, job.recorded_files};
    MoveDigests moved{options.verify ? job.conversion.target_side() : Side{}};
    {
        const Phase phase{trace, "move"};
        ExecOptions digesting = exec;
        digesting.read_digests = job.recorded ? &read : nullptr;
        digesting.move_digests = options.verify ? &moved : nullptr;
        done.report = move(comm, job, directory, digesting, out);
        for (const std::string& note : direct_notes(done.report, options.output)) {
            out.note("{}", note);
            done.said.push_back(note);
        }
    }
    {
        const Phase phase{trace, "check recorded digests"};
        check_record(comm, job, read, exec);
    }
    const Phase phase{trace, "check and rename"};
    if (options.verify) {
        // What an earlier run has written was not moved by this one.
        const auto wanted = wanted_digests(comm, job, moved.complete(comm), done.report.bytes_kept > 0, exec);
        done.verified = check_written(comm, job.conversion, wanted, draft_files(job.conversion.draft, directory), exec);
    }
    check_unchanged(comm, record);
    DraftFiles{comm, job.conversion.draft, directory}.give_names();
    if (options.verify) check_written_values(comm, options, job, directory, *done.verified);
}

/// Sets `layout` to that of the output. `signals` is null in a dry run.
Exit reshard(const mpi::Comm& comm, const ReshardOptions& given, const StopSignals* signals, Patience& patience,
             Output& out, Layout& layout) {
    const auto start = std::chrono::steady_clock::now();
    Trace trace;
    ReadRecord record;
    ReshardOptions options = given;
    mpi::all_or_none(comm, [&] { options.checkpoint = path_without_links(given.checkpoint); });
    ReshardJob job = agreed_job(comm, options, signals, record, trace);
    layout = job.target.layout;
    const ExecOptions limits = limits_of(comm, options, job, signals);
    if (!options.hold.empty()) check_hold(comm, options, layout);
    mpi::all_or_none(comm, [&] {
        if (!options.hardware.empty()) job.rates = formats::read_hosts(options.hardware);
    });
    const auto replaceable =
        std::make_shared<formats::Replaceable>(sources_of(options, job, record), job.conversion.draft);
    mpi::all_or_none(comm, [&] {
        if (comm.rank() != 0) return;
        replaceable->check_place(options.output);
        check_outputs_apart({{"--trace", options.trace}, {"--log", options.log}}, record);
        if (!options.trace.empty()) check_writable(options.trace);
    });
    if (signals == nullptr) {
        report(job, given, std::nullopt, out);
        return Exit::success;
    }
    log_plan(job, given);
    if (options.verify) check_archives(comm, options, limits);
    // Held state is in private files whatever the modes of its checkpoint: the umask decides on the output.
    if (!is_held(given.checkpoint)) limit_modes(comm, options, job, record);
    PartialDirectory partial = make_partial(comm, options, job, replaceable);
    for (const std::string& note : partial.notes()) out.note("{}", note);
    ReshardDone done{.said = partial.notes()};
    Published published;
    try {
        fill(comm, options, job, record, limits, partial, patience, trace, out, done);
        if (!job.rates.empty())
            done.least = storage_bound(comm, job.rates, done.report.bytes_read,
                                       done.report.bytes_written - done.report.bytes_shared);
        const Phase phase{trace, "commit"};
        // From here on, the output may be in place.
        signals->shield();
        patience.set_end(fmt::format("; if {} exists, it is complete", options.output), exit_after_commit);
        published = job.target.format->is_one_file ? partial.commit_file(std::string{job.target.format->file_name})
                                                   : partial.commit();
    } catch (const mpi::AgreedError& error) {
        write_trace(comm, options, trace, out);
        leave_or_discard(comm, partial, error);
    }
    done.durable = published.durable;
    done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::string events = options.trace.empty() ? "" : trace_json(comm, trace);
    after_commit(comm, options.output, [&] {
        if (!options.trace.empty()) write_file(options.trace, events);
        report(job, given, done, out);
        out.finish();
    });
    if (!published.fault.empty()) throw mpi::AgreedError{Error{exit_after_commit, "{}", published.fault}};
    return Exit::success;
}

}  // namespace

void run_reshard(const ReshardOptions& options, Output& out) {
    if (options.clean) return is_first_rank() ? clean(options.output, out) : void();
    if (!options.hold_name.empty() && options.hold.empty()) throw usage_error("--hold-name: requires --hold SECONDS");
    if (!options.hold_device.empty() && options.hold.empty())
        throw usage_error("--hold-device: requires --hold SECONDS");
    check_is_no_held_name(options.output);
    check_outside(options.output, {{"--trace", options.trace}, {"--log", options.log}});
    in_ranks([&](const mpi::Comm& comm) {
        Layout layout;
        std::optional<StopSignals> signals;
        if (!options.dry_run) signals.emplace();
        const Exit exit = with_patience(comm, options.patience, [&](Patience& patience) {
            mpi::all_or_none(comm, [&] { open_job_log(options.log); });
            const Exit status = reshard(comm, options, signals ? &*signals : nullptr, patience, out, layout);
            out.finish();
            return status;
        });
        if (exit == Exit::success && !options.hold.empty() && !options.dry_run)
            hold_output(comm, options, layout, *signals, out);
        return exit;
    });
}

}  // namespace tpx::cli
