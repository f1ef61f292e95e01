// SPDX-License-Identifier: Apache-2.0
#include "cmd/reshard/agreed_job.hpp"

#include "cmd/jobs/check_copies.hpp"
#include "cmd/jobs/metadata_size.hpp"
#include "cmd/jobs/output_mode.hpp"
#include "cmd/jobs/read_once.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/jobs/same_job.hpp"
#include "cmd/reshard/reshard_checks.hpp"
#include "cmd/reshard/trace_file.hpp"
#include "cmd/version.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/in_path.hpp"
#include "lib/core/path.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tpx::cli {
namespace {

/// Throws an mpi::AgreedError if a rank was asked to stop. Collective.
void check_none_stopped(const mpi::Comm& comm, const StopSignals* signals) {
    if (signals != nullptr) mpi::all_or_none(comm, [&] { check_not_stopped(&signals->signal()); });
}

/// A digest of the sources of the output and of the program that writes it, the same on all ranks. Options are omitted:
/// `claims` describe what is written, and thus all options that matter.
std::uint64_t request_digest(const mpi::Comm& comm, std::span<const Claim> claims, const ReadRecord& record,
                             const std::filesystem::path& source) {
    Fingerprint print;
    print.add(digest_of(claims));
    print.add(std::string_view{version_text});
    print.add(path_exists(source) ? real_path(source).string() : source.string());
    // Times of modification can be set, and some file systems do not record them.
    for (const auto& [path, file] : record.files()) {
        if (path.native().starts_with("/proc/self/")) continue;  // zeros for missing parts
        print.add(file.inode);
        print.add(static_cast<std::uint64_t>(file.changed));
    }
    std::string digest = std::to_string(print.value());
    mpi::broadcast(comm, digest);
    return std::stoull(digest);
}

}  // namespace

ExecOptions limits_of(const mpi::Comm& comm, const ReshardOptions& options, const ReshardJob& job,
                      const StopSignals* signals) {
    ExecOptions exec;
    if (options.memory) exec = limits_within(comm, *options.memory, metadata_of(job.conversion, job.moves));
    set_workers(comm, options, exec);
    if (signals != nullptr) exec.cancelled = &signals->signal();
    return exec;
}

ReshardJob agreed_job(const mpi::Comm& comm, const ReshardOptions& options, const StopSignals* signals,
                      ReadRecord& record, Trace& trace) {
    const Phase phase{trace, "open and plan"};
    ReshardJob job;
    read_once(comm, options.checkpoint, [&] {
        job = prepare_reshard(options);
        if (!options.dry_run) read_recorded_digests(options, job);
    });
    record.seal();
    require_same(comm, claims_of_options(options, job));
    const std::vector<Claim> claims = claims_of_job(comm, record, job.opened.source, job.conversion, job.moves);
    require_same(comm, claims);
    job.request = request_digest(comm, claims, record, options.checkpoint);
    check_none_stopped(comm, signals);
    if (job.conversion.dropped_copies.empty()) return job;
    const ExecOptions exec = limits_of(comm, options, job, signals);
    in_path(options.checkpoint,
            [&] { check_copies(comm, job.conversion, job.opened.source.checkpoint.catalogue, exec); });
    check_none_stopped(comm, signals);
    return job;
}

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

}  // namespace tpx::cli
