// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/verify/compare.hpp"
#include "cmd/verify/compare_members.hpp"

#include <string>

namespace tpx::cli {

/// Compares the quantized tensors of two checkpoints, block by block as bytes: equal means the same type, shape and
/// bytes. A tensor that is quantized on one side only differs. Adds what it finds to `result`. Collective.
void compare_blocks(const mpi::Comm& comm, const Member& a, const Member& b, const ExecOptions& options,
                    Comparison& result);

/// True if `member` stores tensor `name` in quantized blocks.
bool has_blocks(const Member& member, const std::string& name);

}  // namespace tpx::cli
