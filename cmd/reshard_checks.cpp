// SPDX-License-Identifier: Apache-2.0
#include "cmd/reshard_checks.hpp"

#include "cmd/digesting.hpp"
#include "cmd/reading.hpp"
#include "formats/torch/open.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/core/unfinished.hpp"
#include "lib/exec/digest_run.hpp"

#include <string>
#include <vector>

namespace tpx::cli {

void check_archives(const mpi::Comm& comm, const ReshardOptions& options, const ExecOptions& exec) {
    Opened opened;
    mpi::all_or_none(comm, [&] { opened = open_checkpoint(options.checkpoint, options); });
    const std::vector<std::string> damaged = damaged_archives(comm, opened.source, exec);
    if (!damaged.empty())
        throw mpi::AgreedError{failure("{} ({})", damaged[0], counted(damaged.size(), "damaged archive"))};
}

void read_recorded(const ReshardOptions& options, ReshardJob& job) {
    const std::string file = name_of_file(options.checkpoint);
    job.recorded = formats::read_digests(job.opened.source.checkpoint.catalogue, file);
    if (!job.recorded) return;
    // Digests were recorded for all tensors as they are stored: also for those that are dropped or dequantized.
    const bool changed = !options.drop.empty() || job.opened.source.dequantized;
    if (changed) job.whole = open_checkpoint(options.checkpoint, options);
    const Catalogue& catalogue = (job.whole ? *job.whole : job.opened).source.checkpoint.catalogue;
    job.recorded_files = formats::files_as_tensors(catalogue, file, *job.recorded);
}

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

}  // namespace tpx::cli
