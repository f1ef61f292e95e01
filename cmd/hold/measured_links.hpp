// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/hosts_plan.hpp"
#include "lib/exec/device/links.hpp"
#include "lib/exec/gpu_memory.hpp"
#include "lib/model/hardware.hpp"

#include <span>
#include <string>
#include <vector>

// Orders links by the rates that `tpx profile hardware` measured. Rates within 25 % of each other count as equal, so
// that noise does not concentrate what is sent on a few links.
namespace tpx::cli {

/// Sets the ranks of those links between the GPUs `rooms` of the host `name` that were measured.
void rank_by_rate(GpuLinks& links, std::span<const GpuInfo> rooms, const Hardware& hardware, const std::string& name);

/// The rates between the hosts with these names.
HostRates rates_between(const Hardware& hardware, std::span<const std::string> names);

}  // namespace tpx::cli
