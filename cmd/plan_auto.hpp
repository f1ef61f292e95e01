// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/commands.hpp"
#include "cmd/output.hpp"

namespace tpx::cli {

/// tpx plan --to auto: compares the layouts that can be reached and prints them, best first. Writes the files that
/// `options` ask for, for the best layout.
void plan_auto(const PlanOptions& options, Output& out);

}  // namespace tpx::cli
