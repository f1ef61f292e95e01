// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/verify/compare.hpp"
#include "cmd/verify/compared_checkpoint.hpp"
#include "formats/values/training_values.hpp"

#include <span>
#include <string>
#include <utility>

namespace tpx::cli {

/// The parameter groups of the optimizers of A and of B.
struct SettingGroups {
    std::span<const formats::SettingGroup> a;
    std::span<const formats::SettingGroup> b;
};

/// Compares the optimizer settings of two checkpoints for each parameter: learning rate, betas, epsilon and weight
/// decay. Returns false if the settings of each parameter are unknown; then it reports only whether one side has no
/// settings. Reads files; not collective.
bool compare_settings(const ComparedCheckpoint& a, const ComparedCheckpoint& b, const SettingGroups& groups,
                      Comparison& result);

/// Compares the steps of two optimizers unless both are tensors, which are compared like other tensors. `of_groups`
/// contains the steps of the parameter groups of A and of B; empty: they have none. Collective.
void compare_steps(const mpi::Comm& comm, const ComparedCheckpoint& a, const ComparedCheckpoint& b,
                   const std::pair<std::string, std::string>& of_groups, Comparison& result);

}  // namespace tpx::cli
