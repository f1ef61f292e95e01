// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/jobs/reshard_job.hpp"
#include "cmd/reshard/check_written.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"
#include "lib/exec/read_digests.hpp"

#include <filesystem>

// What tpx reshard compares before and after the bytes have moved.
namespace tpx::cli {

/// The CRC-32s of the source's archives must hold; read before anything is written, and only when asked for, as it
/// takes another pass over the files.
void check_archives(const mpi::Comm& comm, const ReshardOptions& options, const ExecOptions& exec);

/// Reads the digests that were recorded for the source, before `record` of what is read is sealed: all ranks must have
/// the same ones, and they must not change.
void read_recorded(const ReshardOptions& options, ReshardJob& job);

/// Checks that the source still matches the digests that were recorded for it, so that damage is not carried over.
/// `read` contains the bytes of the source that were read so far; only the others are read now, and more if something
/// differs.
void check_record(const mpi::Comm& comm, ReshardJob& job, ReadDigests& read, const ExecOptions& exec);

/// Opens the source and what was written anew, and compares the values beside their tensors.
void check_written_values(const mpi::Comm& comm, const ReshardOptions& options, const ReshardJob& job,
                          const std::filesystem::path& directory, Verified& verified);

}  // namespace tpx::cli
