// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/policies/sia_program.hpp"

#include <span>
#include <utility>
#include <vector>

namespace tpx {

/// The number of GPUs that a job gets.
struct SiaWish {
    int id;
    int gpus;
};

/// Jobs with the same choices, in order of arrival, and how many of them get which choice.
struct SiaTurn {
    std::span<const SiaChoice> choices;
    std::span<const int> ids;
    std::span<const SiaShare> shares;
};

/// The jobs that start. In each group, those that came first get the most GPUs. If a job of another group came first
/// and could start with as many GPUs at the same cost, it takes the turn of the last job with this choice: sums of
/// costs stay the same, and no group waits behind jobs that came later.
std::vector<SiaWish> sia_turns(std::span<const SiaTurn> groups);

}  // namespace tpx
