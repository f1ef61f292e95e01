// SPDX-License-Identifier: Apache-2.0
#include "cmd/reshard/reshard.hpp"

#include "cmd/hold/hold_output.hpp"
#include "cmd/jobs/direct_io_notes.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/jobs/storage_bound.hpp"
#include "cmd/output/job_log.hpp"
#include "cmd/output/output.hpp"
#include "cmd/output/output_file.hpp"
#include "cmd/output/progress.hpp"
#include "cmd/reshard/agreed_job.hpp"
#include "cmd/reshard/check_written.hpp"
#include "cmd/reshard/reshard_checks.hpp"
#include "cmd/reshard/reshard_output.hpp"
#include "cmd/reshard/reshard_report.hpp"
#include "cmd/reshard/trace_file.hpp"
#include "formats/driver.hpp"
#include "formats/files/plan/hosts_file.hpp"
#include "formats/replaceable.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/core/unfinished.hpp"
#include "lib/core/write_file.hpp"
#include "lib/exec/agreement.hpp"
#include "lib/exec/draft_files.hpp"
#include "lib/exec/execute.hpp"
#include "lib/exec/move_digests.hpp"
#include "lib/exec/publish.hpp"
#include "lib/exec/stop_signals.hpp"

#include <chrono>
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

/// All inputs, none of which the output may replace.
std::vector<std::filesystem::path> inputs_of(const ReshardOptions& options, const ReshardJob& job,
                                             const ReadRecord& record) {
    std::vector<std::filesystem::path> inputs{options.checkpoint};
    if (path_is_directory(options.checkpoint)) inputs.push_back(job.opened.source.checkpoint.catalogue.directory);
    for (const auto& [path, file] : record.files()) inputs.push_back(path);
    if (!options.hardware.empty()) inputs.emplace_back(options.hardware);
    return inputs;
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

/// Runs `body`, which writes nothing. If a signal stops it, the error says so. Collective.
template <class Body>
void before_writing(Body&& body) {
    try {
        body();
    } catch (const mpi::AgreedError& error) {
        if (error.exit() != Exit::resumable && error.exit() != Exit::interrupted) throw;
        throw mpi::AgreedError{
            Error{error.exit(), "{} before anything was written; run the same command again", error.what()}};
    }
}

/// One run of tpx reshard. All functions are collective and throw mpi::AgreedErrors.
class ReshardRun {
public:
    /// `signals` is null in a dry run.
    ReshardRun(const mpi::Comm& comm, const ReshardOptions& given, const StopSignals* signals, Patience& patience,
               Output& out)
        : comm_{comm}, given_{given}, options_{given}, signals_{signals}, patience_{patience}, out_{out} {}

    /// Opens the checkpoint, plans, and checks that the output can be written.
    void prepare() {
        mpi::all_or_none(comm_, [&] { options_.checkpoint = path_without_links(given_.checkpoint); });
        job_ = agreed_job(comm_, options_, signals_, record_, trace_);
        limits_ = limits_of(comm_, options_, job_, signals_);
        if (!options_.hold.empty()) check_hold(comm_, options_, layout());
        mpi::all_or_none(comm_, [&] {
            if (!options_.hardware.empty()) job_.rates = formats::read_hosts(options_.hardware);
        });
        replaceable_ =
            std::make_shared<formats::Replaceable>(inputs_of(options_, job_, record_), job_.conversion.draft);
        mpi::all_or_none(comm_, [&] {
            if (comm_.rank() == 0) check_outputs();
        });
    }

    void report_plan() const { report(job_, given_, std::nullopt, out_); }

    /// Writes the output under a temporary name, then gives it its own.
    void write() {
        log_plan(job_, given_);
        if (options_.verify) before_writing([&] { check_archives(comm_, options_, limits_); });
        // Held state is in private files whatever the modes of its checkpoint: the umask decides on the output.
        if (!is_held(given_.checkpoint)) limit_modes(comm_, options_, job_, record_);
        PartialDirectory partial{comm_, naming()};
        for (const std::string& note : partial.notes()) say(note);
        try {
            fill(partial);
            published_ = publish(partial);
        } catch (const mpi::AgreedError& error) {
            write_trace_of_failure();
            keep_or_discard(comm_, partial, error);
        }
    }

    void report_done() {
        done_.durable = published_.durable;
        done_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
        const std::string events = options_.trace.empty() ? "" : trace_json(comm_, trace_);
        after_commit(comm_, options_.output, [&] {
            if (!options_.trace.empty()) write_file(options_.trace, events);
            report(job_, given_, done_, out_);
            out_.finish();
        });
        if (!published_.fault.empty()) throw mpi::AgreedError{Error{exit_after_commit, "{}", published_.fault}};
    }

    const Layout& layout() const { return job_.target.layout; }  ///< of the output

private:
    /// The names of the output and of its source. If keepers hold the source, its name is the one that the user gave,
    /// because paths to held state are valid only in this run.
    Naming naming() const { return naming_of(is_held(given_.checkpoint) ? given_ : options_, job_, replaceable_); }

    void say(const std::string& note) {
        out_.note("{}", note);
        done_.printed_notes.push_back(note);
    }

    void check_outputs() const {
        replaceable_->check_place(options_.output);
        if (options_.dry_run) PartialDirectory::check_name(naming());
        check_outputs_apart({{"--trace", options_.trace}, {"--log", options_.log}}, record_);
        if (!options_.trace.empty()) check_writable(options_.trace);
    }

    /// Writes all files of the output, and checks them and that the inputs have not changed.
    void fill(const PartialDirectory& partial) {
        const std::filesystem::path& directory = partial.path();
        ExecOptions exec = limits_;
        exec.trace = options_.trace.empty() ? nullptr : &trace_;
        exec.journal = JournalPlace{directory, job_.request, partial.attempt()};
        patience_.set_end(fmt::format("; {} is kept; run the same command to continue", directory.string()));
        ReadDigests read{comm_, job_.recorded_files};
        MoveDigests moved{options_.verify ? job_.conversion.target_side() : Side{}};
        move(directory, exec, read, moved);
        {
            const Phase phase{trace_, "check recorded digests"};
            check_recorded_digests(comm_, job_, read, exec);
        }
        const Phase phase{trace_, "check and rename"};
        if (options_.verify) {
            // What an earlier run has written was not moved by this one.
            const auto wanted = expected_digests(comm_, job_, moved.complete(comm_), done_.report.bytes_kept > 0, exec);
            done_.verified =
                check_written(comm_, job_.conversion, wanted, draft_files(job_.conversion.draft, directory), exec);
        }
        check_unchanged(comm_, record_);
        DraftFiles{comm_, job_.conversion.draft, directory}.rename_to_final();
        if (options_.verify) check_written_values(comm_, options_, job_, directory, *done_.verified);
    }

    void move(const std::filesystem::path& directory, ExecOptions exec, ReadDigests& read, MoveDigests& moved) {
        const Phase phase{trace_, "move"};
        exec.read_digests = job_.recorded ? &read : nullptr;
        exec.move_digests = options_.verify ? &moved : nullptr;
        std::optional<Progress> progress;
        exec.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view slowest) {
            if (!progress) progress.emplace(out_, "reshard", total);
            progress->update(done, slowest);
        };
        const formats::Conversion& conversion = job_.conversion;
        done_.report = execute(comm_, job_.moves, conversion.source_side(),
                               formats::paths(job_.opened.source.checkpoint.catalogue), conversion.target_side(),
                               conversion.draft, directory, exec);
        for (const std::string& note : direct_io_notes(done_.report, options_.output)) say(note);
        if (!job_.rates.empty())
            done_.least = storage_bound(comm_, job_.rates, done_.report.bytes_read,
                                        done_.report.bytes_written - done_.report.bytes_shared);
    }

    PublishResult publish(PartialDirectory& partial) {
        const Phase phase{trace_, "commit"};
        // From here on, the output may be in place.
        signals_->shield();
        patience_.set_end(fmt::format("; if {} exists, it is complete", options_.output), exit_after_commit);
        const formats::Driver& format = *job_.target.format;
        return format.is_one_file ? partial.commit_file(std::string{format.file_name}) : partial.commit();
    }

    /// If the trace cannot be written either, that is only a note.
    void write_trace_of_failure() const {
        if (options_.trace.empty()) return;
        const std::string text = trace_json(comm_, trace_);
        try {
            if (comm_.rank() == 0) write_file(options_.trace, text);
        } catch (const Error& error) {
            out_.note("{}", error.what());
        }
    }

    const mpi::Comm& comm_;
    const ReshardOptions& given_;
    ReshardOptions options_;  ///< with the checkpoint's path without links
    const StopSignals* signals_;
    Patience& patience_;
    Output& out_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    Trace trace_;
    ReadRecord record_;
    ReshardJob job_;
    ExecOptions limits_;
    std::shared_ptr<formats::Replaceable> replaceable_;
    ReshardResult done_;
    PublishResult published_;
};

void check_requirements(const ReshardOptions& options) {
    if (!options.hold_name.empty() && options.hold.empty()) throw usage_error("--hold-name: requires --hold SECONDS");
    if (!options.hold_device.empty() && options.hold.empty())
        throw usage_error("--hold-device: requires --hold SECONDS");
    reject_held_name(options.output);
    check_outside(options.output, {{"--trace", options.trace}, {"--log", options.log}});
}

}  // namespace

void run_reshard(const ReshardOptions& options, Output& out) {
    if (options.clean) return is_first_rank() ? clean(options.output, out) : void();
    check_requirements(options);
    run_on_ranks([&](const mpi::Comm& comm) {
        Layout layout;
        std::optional<StopSignals> signals;
        if (!options.dry_run) signals.emplace();
        const Exit exit = with_patience(comm, options.patience, [&](Patience& patience) {
            mpi::all_or_none(comm, [&] { open_job_log(options.log); });
            ReshardRun run{comm, options, signals ? &*signals : nullptr, patience, out};
            before_writing([&] { run.prepare(); });
            layout = run.layout();
            if (options.dry_run) {
                run.report_plan();
            } else {
                run.write();
                run.report_done();
            }
            out.finish();
            return Exit::success;
        });
        if (exit == Exit::success && !options.hold.empty() && !options.dry_run)
            hold_output(comm, options, layout, *signals, out);
        return exit;
    });
}

}  // namespace tpx::cli
