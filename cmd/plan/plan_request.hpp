// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/plan/plan.hpp"
#include "formats/files/plan/plan_file.hpp"

namespace tpx::cli {

/// Throws Error (exit 3), which names the first difference, unless all that `options` say of a request is what `plan`
/// was made for. Options that are not given are not compared; a checkpoint's tensors are not either.
void check_request(const PlanOptions& options, const formats::PlanFile& plan);

}  // namespace tpx::cli
