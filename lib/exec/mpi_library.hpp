// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/plugin/mpi_plugin.h"

#include <optional>
#include <string>

namespace tpx::mpi {

/// Whether a process manager (mpirun, srun with PMI or PMIx) started this process as one of its ranks.
bool started_as_rank();

/// The number of ranks that the process manager reports to have started together; nothing if it does not report it.
std::optional<int> launched_ranks();

/// Loads an MPI plug-in and initializes its MPI; call it once per process. The plug-in is the file that the variable
/// TPX_MPI_PLUGIN names, or libtpx-mpi-KIND.so in ../lib/tpx or ../lib, relative to the program's folder, where KIND is
/// openmpi, mpich or other. The kind that matches the launcher of this process is tried first. Throws Error that says
/// why no plug-in could be loaded, or that the MPI does not match the launcher.
void start();

/// Waits until all ranks have called it and finalizes MPI.
void stop();

/// Whether start() has succeeded and stop() was not called.
bool is_running();

/// The functions of the MPI that start() started.
const tpx_mpi_functions& functions();

/// Ends all ranks of the job if MPI is running.
void abort(int exit_status);

/// Throws Error "CALL: reason" unless `code` is 0.
void check(int code, const char* call);

}  // namespace tpx::mpi
