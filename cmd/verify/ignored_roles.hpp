// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <set>
#include <string>
#include <string_view>

namespace tpx::cli {

struct CompareOptions;

/// The roles that can be ignored: of tensors, of values beside them, and "optimizer" for all that is an optimizer's.
inline constexpr std::array<std::string_view, 15> ignorable_roles{
    "optimizer", "master", "exp_avg", "exp_avg_sq", "state", "step",  "settings", "scheduler",
    "rng",       "rerun",  "args",    "counters",   "data",  "extra", "copy"};

/// Whether tensors or values of `role` are left out of a comparison.
bool is_ignored(const std::string& role, const CompareOptions& options);

}  // namespace tpx::cli
