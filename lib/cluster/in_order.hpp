// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/simulation.hpp"

namespace tpx {

/// Runs jobs in `order`, which has all waiting and running ones, each with the GPUs that it asks for: where one does
/// not fit, running ones from the end of the order are stopped if that makes room. Who does not fit even then is passed
/// over. Running jobs keep their GPUs.
void run_in_order(Simulation& simulation, const std::vector<int>& order);

}  // namespace tpx
