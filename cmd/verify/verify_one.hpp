// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/output.hpp"
#include "cmd/verify/verify.hpp"
#include "formats/source.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <span>

namespace tpx::cli {

/// The limits for reading `sources`, which are all open checkpoints, within --memory. `more` is the memory in bytes
/// that the command needs for each canonical tensor in addition to reading. Throws an mpi::AgreedError that names a
/// sufficient limit if the metadata do not fit. Collective.
ExecOptions read_limits(const mpi::Comm& comm, const VerifyOptions& options,
                        std::span<const formats::Source* const> sources, std::uint64_t more);

/// Checks whether a checkpoint can be read, has all parts of its model, and matches the digests that are recorded
/// beside it; with --write, records them. Collective.
Exit verify_one(const mpi::Comm& comm, const VerifyOptions& options, Output& out);

}  // namespace tpx::cli
