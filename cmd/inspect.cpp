// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"
#include "lib/core/error.hpp"

namespace tpx::cli {

void run_inspect(const InspectOptions&, Output&) { throw failure("inspect: not built yet"); }

}  // namespace tpx::cli
