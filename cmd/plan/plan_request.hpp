// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/plan/plan.hpp"
#include "formats/files/plan/plan_file.hpp"

namespace tpx::cli {

/// Throws Error (exit 3) that names the first difference, unless `plan` was made for the request in `options`. Does not
/// compare options that are not given, or the tensors of a checkpoint.
void check_request(const PlanOptions& options, const formats::PlanFile& plan);

}  // namespace tpx::cli
