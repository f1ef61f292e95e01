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

/// One claim per option; all ranks must have the same values. `job` has the values of options with a default.
std::vector<Claim> claims_of_options(const ReshardOptions& options, const ReshardJob& job);

/// What must be the same on all ranks before any of them writes, in addition to the options: the files that were read,
/// what the checkpoint contains, what will be written around the payload, and the moves. Files are named relative to
/// the checkpoint's folder, so that ranks may have mounted it at different paths. Collective.
std::vector<Claim> claims_of_job(const mpi::Comm& comm, const ReadRecord& record, const formats::Source& source,
                                 const formats::Conversion& conversion, const Moves& moves);

/// claims_of_job() for a checkpoint that is only read.
std::vector<Claim> claims_of_source(const mpi::Comm& comm, const ReadRecord& record, const formats::Source& source);

}  // namespace tpx::cli
