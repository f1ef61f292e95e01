// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/output.hpp"
#include "cmd/verify/verify.hpp"
#include "formats/source.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"

#include <cstdint>
#include <span>

namespace tpx::cli {

/// The limits for reading `sources`, which are all that is open, within --memory. `more` is the memory that the command
/// needs for each canonical tensor beside what reading takes, in bytes. Throws an mpi::AgreedError that names a limit
/// that would do if the metadata do not fit. Collective.
ExecOptions read_limits(const mpi::Comm& comm, const VerifyOptions& options,
                        std::span<const formats::Source* const> sources, std::uint64_t more);

/// Whether one checkpoint can be read, has all parts of its model, and is what the digests recorded beside it say;
/// with --write, records these. Collective.
Exit verify_one(const mpi::Comm& comm, const VerifyOptions& options, Output& out);

}  // namespace tpx::cli
