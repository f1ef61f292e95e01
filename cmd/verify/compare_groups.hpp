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

/// Compares the param_groups of two optimizers group by group: groups with the same parameters or, if parameters do not
/// match, in the same position. If the numbers of groups differ, as they may between formats, compares the values of
/// all groups as sets. Does nothing if one side has no groups. Compares settings that were compared parameter by
/// parameter only for groups with the same parameters. Of steps, compares only which group has which step;
/// compare_steps() compares the set of all steps. Adds each difference to `result` once.
void compare_groups(std::span<const formats::SettingGroup> a, std::span<const formats::SettingGroup> b,
                    const GroupEntries& entries, Comparison& result);

}  // namespace tpx::cli
