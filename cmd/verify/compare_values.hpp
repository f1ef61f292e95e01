// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/verify/compare.hpp"
#include "cmd/verify/compare_members.hpp"

namespace tpx::cli {

/// Compares what two checkpoints store beside their tensors, and the optimizers' settings parameter by parameter; adds
/// what it finds to `result`. `ignored` says of a role whether it is left out. Collective; read by rank 0.
void compare_values(const mpi::Comm& comm, const Member& a, const Member& b,
                    const std::function<bool(const std::string&)>& ignored, Comparison& result);

}  // namespace tpx::cli
