// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace tpx {

/// One way to give a job more GPUs.
struct Growth {
    int more = 0;     ///< GPUs, at least 1
    double gain = 0;  ///< what they bring; gains of different jobs compare
};

/// For each job the index of the growth that it gets, or -1 for none. Together they need at most `free` GPUs, and no
/// other choice has a larger sum of gains; among equal sums, none needs fewer GPUs. `options` has the ways of each job.
std::vector<int> best_growths(std::span<const std::vector<Growth>> options, int free);

}  // namespace tpx
