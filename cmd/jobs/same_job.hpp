// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/jobs/reshard_job.hpp"
#include "formats/convert/conversion.hpp"
#include "lib/change/moves.hpp"
#include "lib/exec/agreement.hpp"

#include <string>
#include <vector>

namespace tpx::cli {

/// One claim per option; all ranks must have the same values. `job` has those of options that have a default.
std::vector<Claim> claims_of_options(const ReshardOptions& options, const ReshardJob& job);

/// What all ranks must have in common before any of them writes, besides the options: the files that were read, what
/// the checkpoint contains, what will be written around the payload, and the moves. Files are named relative to the
/// checkpoint's folder, so that they may be mounted at different places. Collective.
std::vector<Claim> claims_of_job(const mpi::Comm& comm, const ReadRecord& record, const formats::Source& source,
                                 const formats::Conversion& conversion, const Moves& moves);

/// The same for a checkpoint that is only read.
std::vector<Claim> claims_of_source(const mpi::Comm& comm, const ReadRecord& record, const formats::Source& source);

}  // namespace tpx::cli
