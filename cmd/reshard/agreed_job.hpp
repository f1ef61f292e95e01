// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/reshard_job.hpp"
#include "lib/core/read_record.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/stop_signals.hpp"
#include "lib/exec/trace.hpp"

// How the ranks of tpx reshard come to one job. `signals` is null in a dry run.
namespace tpx::cli {

/// The memory, threads and stop signals of this process. Throws an mpi::AgreedError if --memory is too small.
/// Collective.
ExecOptions limits_of(const mpi::Comm& comm, const ReshardOptions& options, const ReshardJob& job,
                      const StopSignals* signals);

/// Opens the checkpoint and plans the job, the same on all ranks; seals `record`. Throws an mpi::AgreedError if a rank
/// was given other options or reads other bytes, or if copies that will be dropped differ. Collective.
ReshardJob agreed_job(const mpi::Comm& comm, const ReshardOptions& options, const StopSignals* signals,
                      ReadRecord& record, Trace& trace);

/// Gives files and folders that are created from now on none of the permissions that the checkpoint, or the output that
/// is replaced, denies. Collective.
void limit_modes(const mpi::Comm& comm, const ReshardOptions& options, const ReshardJob& job, const ReadRecord& record);

}  // namespace tpx::cli
