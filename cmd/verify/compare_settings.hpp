// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/verify/compare.hpp"
#include "cmd/verify/compare_members.hpp"
#include "formats/values/training_values.hpp"

#include <span>
#include <string>
#include <utility>

namespace tpx::cli {

/// The groups of parameters of the optimizers of A and of B.
struct SettingGroups {
    std::span<const formats::SettingGroup> a;
    std::span<const formats::SettingGroup> b;
};

/// Compares what the optimizers of two checkpoints are told for each parameter: learning rate, betas, epsilon, weight
/// decay, as far as both store them. False when it is not known what each parameter is told; reports then only that one
/// side has no settings. Reads files; not collective.
bool compare_settings(const Member& a, const Member& b, const SettingGroups& groups, Comparison& result);

/// Compares the steps of two optimizers where they are not both tensors, which are compared as such: `told` is what the
/// groups of parameters of A and of B say, empty where they say nothing. Collective.
void compare_steps(const mpi::Comm& comm, const Member& a, const Member& b,
                   const std::pair<std::string, std::string>& told, Comparison& result);

}  // namespace tpx::cli
