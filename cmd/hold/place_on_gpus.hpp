// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/hosts_plan.hpp"

#include <vector>

namespace tpx::cli {

/// The GPU of each source file on the host of `places`; -1: its elements must be computed, or are not in memory of a
/// GPU.
std::vector<int> gpus_of_sources(const HostsPlan& plan, const GpuPlaces& places);

/// The GPU of each file of the draft; -1: it is not in memory of a GPU.
std::vector<int> gpus_of_targets(const HostsPlan& plan, const GpuPlaces& places);

}  // namespace tpx::cli
