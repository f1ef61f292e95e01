// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"
#include "cmd/digesting.hpp"
#include "cmd/output.hpp"
#include "cmd/progress.hpp"
#include "cmd/ranks.hpp"
#include "cmd/reading.hpp"
#include "cmd/storage_bound.hpp"
#include "cmd/stored_plan.hpp"
#include "formats/plan/hosts_file.hpp"
#include "formats/selection.hpp"
#include "formats/torch/open.hpp"
#include "formats/zeros.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/digest_run.hpp"
#include "lib/exec/execute.hpp"
#include "lib/exec/kernel.hpp"
#include "lib/exec/publish.hpp"
#include "lib/exec/signals.hpp"

#include <algorithm>
#include <optional>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Job {
    Opened opened;
    formats::Target target;
    formats::Conversion conversion;
    Plan plan;
    Fd zeros;                 ///< what stands in for missing pieces, if that was asked for
    std::vector<Host> rates;  ///< of hosts, as --hardware says
};

/// What was done, and the least time that it takes, where the rates of the hosts are known.
struct Done {
    Report report;
    double seconds = 0;
    std::optional<ResourceBound> bound;
};

std::vector<SourceFile> draft_files(const Draft& draft, const std::filesystem::path& directory) {
    std::vector<SourceFile> files;
    for (const FileEntry& file : draft.files) files.push_back({directory / file.path});
    return files;
}

/// The dtype that --dtype names, in tpx's words or PyTorch's; only those that values can be cast to.
std::optional<DType> given_dtype(const std::string& text) {
    if (text.empty()) return std::nullopt;
    std::optional<DType> dtype = dtype_by_name(text);
    if (!dtype) dtype = dtype_by_torch(text);
    if (!dtype || !can_cast(*dtype, DType::f32))
        throw Error{Exit::usage, "--dtype: '{}' is none of f64, f32, f16, bf16, float64, float32, float16, bfloat16",
                    text};
    return dtype;
}

void plan_job(Job& job, bool allow_missing) {
    formats::Source& source = job.opened.source;
    if (allow_missing)
        job.zeros = formats::fill_holes(source.checkpoint);
    else
        check_whole(source.checkpoint.catalogue);
    job.conversion = convert(source, job.target);
    job.plan = make_plan(job.conversion.source_side(), job.conversion.target_side());
}

/// The job that a plan file describes, with the moves that it holds.
Job prepare_planned(const ReshardOptions& options) {
    formats::PlanFile plan = read_plan_to_run(options.plan);
    formats::CheckpointPlan& change = *plan.checkpoint;
    Job job{.opened = open_checkpoint(options.checkpoint, options, change.settings.config)};
    check_source(change, options.plan, job.opened.source);
    in_context([&] { return options.plan; }, [&] { job.target = target_of(plan); });
    in_context([&] { return options.checkpoint; },
               [&] {
                   check_whole(job.opened.source.checkpoint.catalogue);
                   job.conversion = convert(job.opened.source, job.target);
               });
    check_conversion(change, options.plan, job.conversion, job.opened.source);
    job.plan = std::move(change.plan);
    return job;
}

Job prepare(const ReshardOptions& options) {
    if (!options.plan.empty()) return prepare_planned(options);
    Job job{.opened = open_checkpoint(options.checkpoint, options)};
    formats::Source& source = job.opened.source;
    if (options.masters && options.drop.empty())
        throw Error{Exit::usage, "--masters: optimizer state has no place beside them; give --drop optimizer too"};
    const formats::Dropped dropped =
        options.drop.empty() ? formats::Dropped{} : formats::keep_weights(source, options.masters);
    job.target = given_target(options, options, source);
    job.target.shard_size = options.shard_size;
    job.target.dtype = given_dtype(options.dtype);
    in_context([&] { return options.checkpoint; }, [&] { plan_job(job, options.allow_missing); });
    if (dropped.states > 0)
        job.conversion.notes.push_back(
            fmt::format("left out, as asked: {} tensors of optimizer state", dropped.states));
    if (!dropped.others.empty())
        job.conversion.notes.push_back(
            fmt::format("left out: {} tensors that are neither weights nor optimizer state ('{}'{})",
                        dropped.others.size(), dropped.others[0], dropped.others.size() > 1 ? ", ..." : ""));
    return job;
}

/// The CRC-32s of the source's archives must hold; read before anything is written, and only when asked for, as it
/// takes another pass over the files.
void check_archives(const mpi::Comm& comm, const ReshardOptions& options) {
    Opened opened;
    mpi::all_or_none(comm, [&] { opened = open_checkpoint(options.checkpoint, options); });
    const std::vector<std::string> damaged = damaged_archives(comm, opened.source);
    if (!damaged.empty()) throw mpi::AgreedError{failure("{} ({} damaged archives)", damaged[0], damaged.size())};
}

/// Digests that were recorded for the source must still hold: nobody wants damage carried over.
void check_record(const mpi::Comm& comm, const ReshardOptions& options, Job& job, const ExecOptions& exec) {
    std::optional<formats::RecordedDigests> record;
    mpi::all_or_none(comm, [&] { record = formats::read_digests(job.opened.source.checkpoint.catalogue.directory); });
    if (!record) return;
    // What is dropped is checked nevertheless: the record is of all.
    Opened whole;
    if (!options.drop.empty()) mpi::all_or_none(comm, [&] { whole = open_checkpoint(options.checkpoint, options); });
    formats::Source& source = options.drop.empty() ? job.opened.source : whole.source;
    const Digested now = digest_all(comm, source, exec);
    const std::vector<std::string> differences = compare_with_record(comm, source, now, *record, exec);
    if (differences.empty()) return;
    throw mpi::AgreedError{failure("{}: {} ({} differences from {})",
                                   job.opened.source.checkpoint.catalogue.directory.string(), differences[0],
                                   differences.size(), formats::digests_file_name)};
}

/// Reads what was written back from disk, and compares it with what the source holds.
void check_written(const mpi::Comm& comm, const Job& job, const std::filesystem::path& directory,
                   const ExecOptions& exec) {
    const formats::Conversion& conversion = job.conversion;
    const auto was =
        digests(comm, conversion.source_side(), formats::paths(job.opened.source.checkpoint.catalogue), exec);
    const auto is = digests(comm, conversion.target_side(), draft_files(conversion.draft, directory), exec);
    for (std::size_t t = 0; t < is.size(); ++t) {
        const bool same_dtype = conversion.source_tensors[t].dtype == conversion.target_tensors[t].dtype;
        if (same_dtype && was[t] != is[t])
            throw mpi::AgreedError{failure("{}: tensor '{}': read back with digest {} instead of {}",
                                           directory.string(), conversion.target_tensors[t].name, to_string(is[t]),
                                           to_string(was[t]))};
    }
}

void report(const Job& job, const ReshardOptions& options, const std::optional<Done>& done, Output& out) {
    const Draft& draft = job.conversion.draft;
    std::uint64_t written = 0;
    for (const FileEntry& file : draft.files) written += file.size;
    for (const std::string& note : job.conversion.notes) out.note("{}", note);
    if (out.json()) {
        Json json{{"source", options.checkpoint},
                  {"output", options.output},
                  {"format", formats::name(job.target.format)},
                  {"layout", to_json(job.target.layout)},
                  {"tensors", draft.tensors.size()},
                  {"pieces", draft.pieces.size()},
                  {"files", draft.files.size()},
                  {"bytes", written},
                  {"written", done.has_value()},
                  {"notes", job.conversion.notes}};
        if (done) {
            json["bytes_read"] = done->report.bytes_read;
            json["bytes_written"] = done->report.bytes_written;
            json["seconds"] = done->seconds;
            if (done->bound)
                json["bound"] = {{"seconds", done->bound->seconds},
                                 {"resource", done->bound->resource},
                                 {"efficiency", done->bound->seconds / std::max(done->seconds, 1e-9)}};
        }
        return out.object("tpx.reshard/1", json);
    }
    out.result("{}: {}, {} ({} rank{}), {} tensors in {} pieces and {} files, {}\n", options.output,
               formats::name(job.target.format), to_string(job.target.layout), job.target.layout.ranks(),
               job.target.layout.ranks() == 1 ? "" : "s", draft.tensors.size(), draft.pieces.size(), draft.files.size(),
               format_bytes(static_cast<double>(written)));
    if (!done) return out.result("nothing was written (--dry-run)\n");
    out.result("read {} and wrote {} in {}, {}\n", format_bytes(static_cast<double>(done->report.bytes_read)),
               format_bytes(static_cast<double>(done->report.bytes_written)), format_seconds(done->seconds),
               format_rate(static_cast<double>(done->report.bytes_written) / std::max(done->seconds, 1e-9)));
    if (done->bound)
        out.result("at least {}: {} at {}{}; that is {:.0f} % of the time taken\n",
                   format_seconds(done->bound->seconds), done->bound->resource, format_rate(done->bound->rate),
                   done->bound->assumed ? ", assumed" : "", 100 * done->bound->seconds / std::max(done->seconds, 1e-9));
}

Report move(const mpi::Comm& comm, const Job& job, const std::filesystem::path& directory, ExecOptions exec,
            Output& out) {
    std::optional<Progress> progress;
    exec.progress = [&](std::uint64_t done, std::uint64_t total) {
        if (!progress) progress.emplace(out, "reshard", total);
        progress->update(done);
    };
    const formats::Conversion& conversion = job.conversion;
    return execute(comm, job.plan, conversion.source_side(), formats::paths(job.opened.source.checkpoint.catalogue),
                   conversion.target_side(), conversion.draft, directory, exec);
}

Exit reshard(const mpi::Comm& comm, const ReshardOptions& options, Output& out) {
    const auto start = std::chrono::steady_clock::now();
    Job job;
    mpi::all_or_none(comm, [&] {
        job = prepare(options);
        if (!options.hardware.empty()) job.rates = formats::read_hosts(options.hardware);
    });
    if (options.dry_run) {
        report(job, options, std::nullopt, out);
        return Exit::success;
    }
    const StopSignals signals;
    ExecOptions exec{.cancelled = &signals.signal()};
    if (options.memory) exec.memory = buffers_within(comm, *options.memory);
    if (options.verify) check_archives(comm, options);
    PartialDirectory partial{comm, options.output, options.force};
    check_record(comm, options, job, exec);
    Done done{.report = move(comm, job, partial.path(), exec, out), .seconds = 0, .bound = {}};
    if (options.verify) check_written(comm, job, partial.path(), exec);
    is_torch(job.target.format) ? partial.commit_file(formats::draft_file_name) : partial.commit();
    done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!job.rates.empty()) {
        const Prediction least = storage_bound(comm, job.rates, done.report.bytes_read, done.report.bytes_written);
        done.bound = least.resources[least.binding];
    }
    report(job, options, done, out);
    return Exit::success;
}

}  // namespace

void run_reshard(const ReshardOptions& options, Output& out) {
    in_ranks([&](const mpi::Comm& comm) {
        const Exit exit = reshard(comm, options, out);
        out.finish();
        return exit;
    });
}

}  // namespace tpx::cli
