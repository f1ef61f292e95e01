// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"
#include "lib/core/error.hpp"

namespace tpx::cli {

void run_plan(const PlanOptions&, Output&) { throw failure("plan: not built yet"); }

}  // namespace tpx::cli
