// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/simulation.hpp"

namespace tpx {

/// All jobs that wait or run, in order of arrival.
std::vector<int> all_jobs(const Simulation& simulation);

/// Starts jobs of `order` with the GPUs that they ask for until one does not fit, which one is returned; order.size()
/// when all fit. Who is held up by a quota alone holds up nobody else.
std::size_t start_in_order(Simulation& simulation, const std::vector<int>& order);

/// Runs jobs in `order`, which has all waiting and running ones, each with the GPUs that it asks for: where one does
/// not fit, running ones from the end of the order are stopped if that makes room. Who does not fit even then is passed
/// over. Running jobs keep their GPUs.
void run_in_order(Simulation& simulation, const std::vector<int>& order);

}  // namespace tpx
