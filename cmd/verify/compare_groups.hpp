// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/verify/compare.hpp"
#include "formats/values/training_values.hpp"

#include <span>
#include <utility>

namespace tpx::cli {

/// Which entries of groups compare_groups() compares.
struct GroupEntries {
    bool settings = true;
    bool by_parameter = false;  ///< settings of parameters were compared parameter by parameter
    bool step = true;
};

/// Compares the param_groups of two optimizers, group by group: those that name the same parameters, else those of one
/// number. Where the numbers of groups differ, as between formats, the values of all groups are compared as sets. Does
/// nothing when one side has no groups. Settings that were compared parameter by parameter are compared only of groups
/// that name the same parameters. Of steps, compares only which group has which: compare_steps() compares all of them
/// together. Adds each difference to `result`, once.
void compare_groups(std::span<const formats::SettingGroup> a, std::span<const formats::SettingGroup> b,
                    const GroupEntries& entries, Comparison& result);

}  // namespace tpx::cli
