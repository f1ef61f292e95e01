// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/jobs/reshard_job.hpp"
#include "cmd/reshard/check_written.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/read_digests.hpp"

#include <filesystem>

// The checks of tpx reshard before and after it moves bytes.
namespace tpx::cli {

/// Throws an mpi::AgreedError if a CRC-32 in the source's archives does not match. Runs before anything is written, and
/// only if requested, because it reads the files once more. Collective.
void check_archives(const mpi::Comm& comm, const ReshardOptions& options, const ExecOptions& exec);

/// Reads the digests that were recorded for the source. To be called before the ReadRecord is sealed: the digests must
/// be the same on all ranks, and must not change.
void read_recorded_digests(const ReshardOptions& options, ReshardJob& job);

/// Checks that the source still matches the digests that were recorded for it, so that damage is not carried over.
/// `read` contains the digests of the bytes that were read so far; only other bytes are read now, and more if something
/// differs.
void check_recorded_digests(const mpi::Comm& comm, ReshardJob& job, ReadDigests& read, const ExecOptions& exec);

/// Opens the source and the output again, and compares their non-tensor values.
void check_written_values(const mpi::Comm& comm, const ReshardOptions& options, const ReshardJob& job,
                          const std::filesystem::path& directory, VerifyResult& verified);

}  // namespace tpx::cli
