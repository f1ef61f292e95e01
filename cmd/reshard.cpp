// SPDX-License-Identifier: Apache-2.0
#include "cmd/check_copies.hpp"
#include "cmd/check_written.hpp"
#include "cmd/commands.hpp"
#include "cmd/digesting.hpp"
#include "cmd/output.hpp"
#include "cmd/output_mode.hpp"
#include "cmd/progress.hpp"
#include "cmd/ranks.hpp"
#include "cmd/reading.hpp"
#include "cmd/reshard_job.hpp"
#include "cmd/same_job.hpp"
#include "cmd/storage_bound.hpp"
#include "cmd/stored_plan.hpp"
#include "formats/plan/hosts_file.hpp"
#include "formats/replaceable.hpp"
#include "formats/torch/open.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/core/unfinished.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/digest_run.hpp"
#include "lib/exec/draft_files.hpp"
#include "lib/exec/execute.hpp"
#include "lib/exec/publish.hpp"
#include "lib/exec/signals.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What was done, and the least time that it takes, where the rates of the hosts are known.
struct Done {
    Report report;
    double seconds = 0;
    std::optional<ResourceBound> bound;
    bool durable = true;
    std::vector<std::string> said;  ///< notes that were printed before the work began
    std::optional<Verified> verified;
};

/// The files of an output that is not finished.
std::vector<SourceFile> draft_files(const Draft& draft, const std::filesystem::path& directory) {
    std::vector<SourceFile> files;
    for (const FileEntry& file : draft.files) files.push_back({unfinished_name(directory / file.path)});
    return files;
}

/// The CRC-32s of the source's archives must hold; read before anything is written, and only when asked for, as it
/// takes another pass over the files.
void check_archives(const mpi::Comm& comm, const ReshardOptions& options) {
    Opened opened;
    mpi::all_or_none(comm, [&] { opened = open_checkpoint(options.checkpoint, options); });
    ExecOptions exec;
    if (options.memory) exec.memory = buffers_within(comm, *options.memory);
    const std::vector<std::string> damaged = damaged_archives(comm, opened.source, exec);
    if (!damaged.empty())
        throw mpi::AgreedError{failure("{} ({})", damaged[0], counted(damaged.size(), "damaged archive"))};
}

/// Reads the digests that were recorded for the source, before `record` of what is read is sealed: all ranks must have
/// the same ones, and they must not change.
void read_recorded(const ReshardOptions& options, ReshardJob& job) {
    const std::string file = name_of_file(options.checkpoint);
    job.recorded = formats::read_digests(job.opened.source.checkpoint.catalogue, file);
    if (!job.recorded) return;
    // What is dropped is checked nevertheless: the digests are of all.
    if (!options.drop.empty()) job.whole = open_checkpoint(options.checkpoint, options);
    const Catalogue& catalogue = (job.whole ? *job.whole : job.opened).source.checkpoint.catalogue;
    job.recorded_files = formats::files_as_tensors(catalogue, file, *job.recorded);
}

/// Digests that were recorded for the source must still hold: nobody wants damage carried over.
void check_record(const mpi::Comm& comm, ReshardJob& job, const ExecOptions& exec) {
    if (!job.recorded) return;
    formats::Source& source = (job.whole ? *job.whole : job.opened).source;
    const Digested now = digest_all(comm, source, exec);
    const std::vector<std::string> differences =
        compare_with_record(comm, job.recorded_files, now, *job.recorded, exec);
    if (differences.empty()) return;
    throw mpi::AgreedError{failure("{}: {} ({} differences from {})",
                                   job.opened.source.checkpoint.catalogue.directory.string(), differences[0],
                                   differences.size(), formats::digests_file_name)};
}

/// Opens the source and what was written anew, and compares the values beside their tensors.
void check_written_values(const mpi::Comm& comm, const ReshardOptions& options, const ReshardJob& job,
                          const std::filesystem::path& directory, Verified& verified) {
    Opened source;
    Opened output;
    mpi::all_or_none(comm, [&] {
        if (comm.rank() != 0) return;
        source = open_checkpoint(options.checkpoint, options);
        const ReadUnfinished output_so_far{directory};
        output =
            open_checkpoint(is_torch(job.target.format) ? directory / formats::draft_file_name : directory, options);
    });
    check_values(comm, source.source.checkpoint, output.source.checkpoint, verified);
}

void report(const ReshardJob& job, const ReshardOptions& options, const std::optional<Done>& done, Output& out) {
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
            json["notes"] = done->said;
            for (const std::string& note : job.conversion.notes) json["notes"].push_back(note);
            json["durable"] = done->durable;
            json["bytes_read"] = done->report.bytes_read;
            json["bytes_written"] = done->report.bytes_written;
            json["seconds"] = done->seconds;
            if (done->verified) json["verified"] = to_json(*done->verified);
            if (done->bound)
                json["bound"] = {{"seconds", done->bound->seconds},
                                 {"resource", done->bound->resource},
                                 {"efficiency", done->bound->seconds / std::max(done->seconds, 1e-9)}};
        }
        return out.object("tpx.reshard/1", json);
    }
    out.result("{}: {}, {} ({}), {} in {} and {}, {}\n", options.output, formats::name(job.target.format),
               to_string(job.target.layout), counted(job.target.layout.ranks(), "rank"),
               counted(draft.tensors.size(), "tensor"), counted(draft.pieces.size(), "piece"),
               counted(draft.files.size(), "file"), format_bytes(static_cast<double>(written)));
    if (!done) return out.result("nothing was written (--dry-run)\n");
    out.result("read {} and wrote {} in {}, {}\n", format_bytes(static_cast<double>(done->report.bytes_read)),
               format_bytes(static_cast<double>(done->report.bytes_written)), format_seconds(done->seconds),
               format_rate(static_cast<double>(done->report.bytes_written) / std::max(done->seconds, 1e-9)));
    if (done->verified) out.result("{}\n", to_text(*done->verified));
    if (done->bound)
        out.result("at least {}: {} at {}{}; that is {:.0f} % of the time taken\n",
                   format_seconds(done->bound->seconds), done->bound->resource, format_rate(done->bound->rate),
                   done->bound->assumed ? ", assumed" : "", 100 * done->bound->seconds / std::max(done->seconds, 1e-9));
}

Report move(const mpi::Comm& comm, const ReshardJob& job, const std::filesystem::path& directory, ExecOptions exec,
            Output& out) {
    std::optional<Progress> progress;
    exec.progress = [&](std::uint64_t done, std::uint64_t total) {
        if (!progress) progress.emplace(out, "reshard", total);
        progress->update(done);
    };
    const formats::Conversion& conversion = job.conversion;
    return execute(comm, job.moves, conversion.source_side(), formats::paths(job.opened.source.checkpoint.catalogue),
                   conversion.target_side(), conversion.draft, directory, exec);
}

/// The options, in a text that differs where two runs would do different things.
std::string text_of(const ReshardOptions& options, const ReshardJob& job) {
    const auto size = [](std::optional<std::uint64_t> value) { return value ? std::to_string(*value) : "default"; };
    const auto flag = [](bool given, std::string_view name) { return given ? fmt::format(" --{}", name) : ""; };
    return fmt::format(
        "output {}, layout {}, format {}, dialect '{}', dtype '{}', drop '{}', memory {}, shard size {}, "
        "hardware '{}', options{}{}{}{}{}",
        options.output, to_string(job.target.layout), formats::name(job.target.format), job.target.dialect,
        options.dtype, options.drop, size(options.memory), size(options.shard_size), options.hardware,
        flag(options.force, "force"), flag(options.verify, "verify"), flag(options.dry_run, "dry-run"),
        flag(options.allow_missing, "allow-missing"), flag(options.masters, "masters"));
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
        const auto& folder = job.opened.source.checkpoint.catalogue.directory;
        const bool single = !path_is_directory(options.checkpoint);
        denied = denied_modes(record, single ? folder : std::filesystem::path{options.checkpoint}, options.output);
    });
    std::string bits = std::to_string(denied);
    mpi::broadcast(comm, bits);
    ::umask(::umask(0777) | static_cast<mode_t>(std::stoul(bits)));
}

PartialDirectory make_partial(const mpi::Comm& comm, const ReshardOptions& options,
                              const std::shared_ptr<formats::Replaceable>& replaceable) {
    return {
        comm,
        {.out = options.output,
         .force = options.force,
         .check_replaceable = [replaceable](const std::filesystem::path& occupant) { replaceable->check(occupant); },
         .source = options.checkpoint}};
}

/// Runs `body` on rank 0; an error in it ends all ranks with a status and words that say that the output is there.
template <class Body>
void after_commit(const mpi::Comm& comm, const std::string& output, Body&& body) {
    std::string fault;
    try {
        if (comm.rank() == 0) body();
    } catch (const std::exception& error) {
        fault = error.what();
    }
    mpi::broadcast(comm, fault);
    if (!fault.empty())
        throw mpi::AgreedError{Error{exit_after_commit, "{}; {} is complete and in place", fault, output}};
}

/// Runs `body`, which fills and names the output; where it fails and the unfinished folder cannot be removed, the error
/// names that as well.
template <class Body>
void or_discard(const mpi::Comm& comm, PartialDirectory& partial, Body&& body) {
    try {
        body();
    } catch (const mpi::AgreedError& error) {
        std::string fault = comm.rank() == 0 ? partial.discard() : "";
        mpi::broadcast(comm, fault);
        if (fault.empty()) throw;
        throw mpi::AgreedError{Error{error.exit(), "{}; {} is left, as it cannot be removed: {}", error.what(),
                                     partial.path().string(), fault}};
    }
}

/// Opens the checkpoint and plans the job, the same on all ranks.
ReshardJob agreed_job(const mpi::Comm& comm, const ReshardOptions& options, ReadRecord& record) {
    ReshardJob job;
    mpi::all_or_none(comm, [&] {
        job = prepare(options);
        if (!options.dry_run) read_recorded(options, job);
    });
    record.seal();
    require_same(comm, claims_of_job(text_of(options, job), record, job.opened.source, job.conversion, job.moves));
    if (job.conversion.dropped_copies.empty()) return job;
    ExecOptions exec;
    if (options.memory) exec.memory = buffers_within(comm, *options.memory);
    in_context([&] { return options.checkpoint; },
               [&] { check_copies(comm, job.conversion, job.opened.source.checkpoint.catalogue, exec); });
    return job;
}

/// Writes the output beside its final place, all of it, and checks that what it was made of is what it was.
void fill(const mpi::Comm& comm, const ReshardOptions& options, ReshardJob& job, const ReadRecord& record,
          const std::filesystem::path& directory, const StopSignals& signals, Output& out, Done& done) {
    ExecOptions exec{.cancelled = &signals.signal()};
    if (options.memory) exec.memory = buffers_within(comm, *options.memory);
    check_record(comm, job, exec);
    done.report = move(comm, job, directory, exec, out);
    if (options.verify)
        done.verified = check_written(comm, job.conversion, job.opened.source.checkpoint.catalogue,
                                      draft_files(job.conversion.draft, directory), exec);
    check_unchanged(comm, record);
    DraftFiles{comm, job.conversion.draft, directory}.give_names();
    if (options.verify) check_written_values(comm, options, job, directory, *done.verified);
}

Exit reshard(const mpi::Comm& comm, const ReshardOptions& given, Output& out) {
    const auto start = std::chrono::steady_clock::now();
    ReadRecord record;
    ReshardOptions options = given;
    mpi::all_or_none(comm, [&] { options.checkpoint = path_without_links(given.checkpoint); });
    ReshardJob job = agreed_job(comm, options, record);
    mpi::all_or_none(comm, [&] {
        if (!options.hardware.empty()) job.rates = formats::read_hosts(options.hardware);
    });
    const auto replaceable =
        std::make_shared<formats::Replaceable>(sources_of(options, job, record), job.conversion.draft);
    mpi::all_or_none(comm, [&] {
        if (comm.rank() == 0) replaceable->check_place(options.output);
    });
    if (options.dry_run) {
        report(job, given, std::nullopt, out);
        return Exit::success;
    }
    const StopSignals signals;
    if (options.verify) check_archives(comm, options);
    limit_modes(comm, options, job, record);
    PartialDirectory partial = make_partial(comm, options, replaceable);
    for (const std::string& note : partial.notes()) out.note("{}", note);
    Done done{.said = partial.notes()};
    Published published;
    or_discard(comm, partial, [&] {
        fill(comm, options, job, record, partial.path(), signals, out, done);
        if (!job.rates.empty()) {
            const Prediction least = storage_bound(comm, job.rates, done.report.bytes_read, done.report.bytes_written);
            done.bound = least.resources[least.binding];
        }
        published = is_torch(job.target.format) ? partial.commit_file(formats::draft_file_name) : partial.commit();
    });
    done.durable = published.durable;
    done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    after_commit(comm, options.output, [&] {
        report(job, given, done, out);
        out.finish();
    });
    if (!published.fault.empty()) throw mpi::AgreedError{Error{exit_after_commit, "{}", published.fault}};
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
