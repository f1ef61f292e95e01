// SPDX-License-Identifier: Apache-2.0
#include "cmd/reshard/reshard_checks.hpp"

#include "cmd/jobs/checkpoint_digests.hpp"
#include "cmd/jobs/open_checkpoint.hpp"
#include "cmd/jobs/read_once.hpp"
#include "formats/driver.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/core/unfinished.hpp"
#include "lib/exec/digests.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace tpx::cli {

void check_archives(const mpi::Comm& comm, const ReshardOptions& options, const ExecOptions& exec) {
    OpenedCheckpoint opened;
    read_once(comm, options.checkpoint, [&] { opened = open_checkpoint(options.checkpoint, options); });
    const std::vector<std::string> damaged = damaged_archives(comm, opened.source, exec);
    if (!damaged.empty())
        throw mpi::AgreedError{failure("{} ({})", damaged[0], counted(damaged.size(), "damaged archive"))};
}

void read_recorded_digests(const ReshardOptions& options, ReshardJob& job) {
    const std::string file = name_of_file(options.checkpoint);
    job.recorded = formats::read_digests(job.opened.source.checkpoint.catalogue, file);
    if (!job.recorded) return;
    // Digests were recorded for all tensors as stored, including those that are dropped, merged or computed.
    const bool changed =
        !options.drop.empty() || !options.merge_adapter.empty() || job.opened.source.has_computed_values;
    if (changed) job.whole = open_checkpoint(options.checkpoint, options);
    const Catalogue& catalogue = (job.whole ? *job.whole : job.opened).source.checkpoint.catalogue;
    job.recorded_files = formats::files_as_tensors(catalogue, file, *job.recorded);
}

namespace {

/// Whether digests of all files that contain tensors are recorded, so that tensors are intact if the files are.
bool has_all_files(const formats::RecordedDigests& record, const Catalogue& catalogue) {
    std::set<std::filesystem::path> recorded;
    for (const auto& file : record.files) recorded.insert(file.path);
    return std::ranges::all_of(catalogue.files, [&](const FileEntry& file) { return recorded.contains(file.path); });
}

}  // namespace

void check_recorded_digests(const mpi::Comm& comm, ReshardJob& job, ReadDigests& read, const ExecOptions& exec) {
    if (!job.recorded) return;
    formats::Source& source = (job.whole ? *job.whole : job.opened).source;
    const auto in_files = compare_files(digest_files(job.recorded_files, read, exec), *job.recorded);
    if (in_files.empty() && has_all_files(*job.recorded, source.checkpoint.catalogue)) return;
    // Finds out which tensors are damaged.
    std::vector<std::string> differences = compare_tensors(digest_all(comm, source, exec), *job.recorded);
    differences.insert(differences.end(), in_files.begin(), in_files.end());
    if (differences.empty()) return;
    throw mpi::AgreedError{failure("{}: {} ({} differences from {})",
                                   job.opened.source.checkpoint.catalogue.directory.string(), differences[0],
                                   differences.size(), formats::digests_file_name)};
}

void check_written_values(const mpi::Comm& comm, const ReshardOptions& options, const ReshardJob& job,
                          const std::filesystem::path& directory, VerifyResult& verified) {
    OpenedCheckpoint source;
    OpenedCheckpoint output;
    mpi::all_or_none(comm, [&] {
        if (comm.rank() != 0) return;
        source = open_checkpoint(options.checkpoint, options);
        const ReadUnfinished output_so_far{directory};
        output = open_checkpoint(job.target.format->is_one_file ? directory / job.target.format->file_name : directory,
                                 options);
    });
    check_values(comm, source.source.checkpoint, output.source.checkpoint, verified);
}

}  // namespace tpx::cli
