// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/jobs/reshard_job.hpp"

namespace tpx::cli {

void run_reshard(const ReshardOptions& options, Output& out);

/// Describes `tpx reshard`.
void add_reshard(Cli& cli);

}  // namespace tpx::cli
