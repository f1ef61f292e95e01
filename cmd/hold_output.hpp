// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/commands.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/layout/layout.hpp"

namespace tpx::cli {

/// Throws an mpi::AgreedError unless the output can be held under its name, as --hold asks, and it is known which ranks
/// run on which host. Collective.
void check_hold(const mpi::Comm& comm, const ReshardOptions& options, const Layout& layout);

/// Starts `tpx hold` for the output, which is complete, on each host. Throws an mpi::AgreedError with the status
/// exit_after_commit if the state cannot be held. Collective.
void hold_output(const mpi::Comm& comm, const ReshardOptions& options, const Layout& layout, const Output& out);

}  // namespace tpx::cli
