// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/execution_plan.hpp"

#include <array>
#include <span>
#include <string_view>

namespace tpx {

/// Techniques besides data parallelism, which not every trainer supports, as named in plans; "recompute" is full or
/// selective recomputation, "ga" more than one pass.
inline constexpr std::array<std::string_view, 7> techniques{"tp", "pp", "zero", "sp", "recompute", "offload", "ga"};

/// Whether `plan` uses `technique`, one of `techniques`.
bool uses(const ExecutionPlan& plan, std::string_view technique);
/// Whether `plan` uses any of `excluded`.
bool uses_any(const ExecutionPlan& plan, std::span<const std::string_view> excluded);

}  // namespace tpx
