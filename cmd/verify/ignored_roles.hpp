// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <set>
#include <string>
#include <string_view>

namespace tpx::cli {

struct CompareOptions;

/// The roles of tensors and non-tensor values that can be ignored; "optimizer" stands for all optimizer state.
inline constexpr std::array<std::string_view, 15> ignorable_roles{
    "optimizer", "master", "exp_avg", "exp_avg_sq", "state", "step",  "settings", "scheduler",
    "rng",       "rerun",  "args",    "counters",   "data",  "extra", "copy"};

/// Whether tensors or values of `role` are left out of a comparison.
bool is_ignored(const std::string& role, const CompareOptions& options);

}  // namespace tpx::cli
