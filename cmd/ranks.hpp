// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <functional>

namespace tpx::cli {

/// Thrown to end the process with `exit` when everything has been said.
struct Finished {
    Exit exit;
};

/// Runs `body` on all ranks that were started together. Its failures are reported once, and end the process with their
/// exit code; so does a result other than Exit::success.
void in_ranks(const std::function<Exit(const mpi::Comm&)>& body);

}  // namespace tpx::cli
