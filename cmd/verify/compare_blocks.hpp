// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/verify/compare.hpp"
#include "cmd/verify/compared_checkpoint.hpp"

#include <string>

namespace tpx::cli {

/// Compares the quantized tensors of two checkpoints: their types, shapes and blocks, as bytes. A tensor that is
/// quantized on only one side is a difference. Adds the differences to `result`. Collective.
void compare_blocks(const mpi::Comm& comm, const ComparedCheckpoint& a, const ComparedCheckpoint& b,
                    const ExecOptions& options, Comparison& result);

/// True if `member` stores tensor `name` in quantized blocks.
bool has_blocks(const ComparedCheckpoint& member, const std::string& name);

}  // namespace tpx::cli
