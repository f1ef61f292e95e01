// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/plan/auto_layouts.hpp"

namespace tpx::cli {

/// Compares the layouts that `options` allow for the checkpoint in the node-local stores of --stores. This process must
/// be able to read all of them.
ComparedLayouts compare_layouts_in_stores(const PlanOptions& options);

}  // namespace tpx::cli
