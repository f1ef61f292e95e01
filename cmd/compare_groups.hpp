// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/compare.hpp"
#include "formats/values/training_values.hpp"

#include <span>
#include <utility>

namespace tpx::cli {

/// Compares what the optimizers of two checkpoints are told for their groups of parameters, group by group: those that
/// name the same parameters, else those of one number. Where the numbers of groups differ, as between formats, the
/// values of all groups are compared as sets. Does nothing when one side has no groups. If `by_parameter`, settings
/// that were compared parameter by parameter are compared only of groups that name the same parameters. Adds what it
/// finds to `result`, once.
void compare_groups(std::span<const formats::SettingGroup> a, std::span<const formats::SettingGroup> b,
                    bool by_parameter, Comparison& result);

}  // namespace tpx::cli
