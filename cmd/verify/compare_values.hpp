// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/verify/compare.hpp"
#include "cmd/verify/compared_checkpoint.hpp"

namespace tpx::cli {

/// Compares the non-tensor values of two checkpoints, and the optimizers' settings parameter by parameter. Adds the
/// differences to `result`. `ignored` returns true for roles that are not compared. Collective; only rank 0 reads
/// values.
void compare_values(const mpi::Comm& comm, const ComparedCheckpoint& a, const ComparedCheckpoint& b,
                    const std::function<bool(const std::string&)>& ignored, Comparison& result);

}  // namespace tpx::cli
