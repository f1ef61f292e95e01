// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/commands.hpp"
#include "cmd/output.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"

namespace tpx::cli {

/// What --memory leaves for buffers beside what is allocated by now. Collective.
ExecOptions read_limits(const mpi::Comm& comm, const VerifyOptions& options);

/// Whether one checkpoint can be read, has all parts of its model, and is what the digests recorded beside it say;
/// with --write, records these. Collective.
Exit verify_one(const mpi::Comm& comm, const VerifyOptions& options, Output& out);

}  // namespace tpx::cli
