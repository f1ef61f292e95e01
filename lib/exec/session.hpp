// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"
#include "lib/exec/mpi.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace tpx::mpi {

/// Called with the exit status and the error message of a failed job.
using Report = std::function<void(Exit, std::string_view)>;

/// Runs `body` with a communicator over all ranks that were started together, or over this process alone, in which case
/// no MPI is loaded. Reports failures through `report`: an error that all ranks agreed on is reported once, by rank 0;
/// an error of this rank alone ends the whole job, because the others may be waiting for it.
Exit with_ranks(const std::function<Exit(const Comm&)>& body, const Report& report);

/// Makes with_ranks() wait at most `limit` until all ranks have finished. After that, it reports `message` and ends
/// this process, and so the job, with `exit`. Without a limit, it waits forever.
void limit_shutdown(std::chrono::seconds limit, std::string message, Exit exit);

/// Ends this process at once with `exit`, and with it all ranks of the job, whatever their threads are doing.
[[noreturn]] void end_job(Exit exit);

}  // namespace tpx::mpi
