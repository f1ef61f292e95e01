// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/verify/compare.hpp"
#include "cmd/verify/compare_members.hpp"

#include <string>

namespace tpx::cli {

/// Compares the quantized tensors of two checkpoints: their types, shapes and blocks, as bytes. A tensor that is
/// quantized on only one side is a difference. Adds the differences to `result`. Collective.
void compare_blocks(const mpi::Comm& comm, const Member& a, const Member& b, const ExecOptions& options,
                    Comparison& result);

/// True if `member` stores tensor `name` in quantized blocks.
bool has_blocks(const Member& member, const std::string& name);

}  // namespace tpx::cli
