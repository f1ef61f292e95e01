// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/hosts_plan.hpp"
#include "lib/exec/device/links.hpp"
#include "lib/exec/gpu_memory.hpp"
#include "lib/model/hardware.hpp"

#include <span>
#include <string>
#include <vector>

// Orders links by the rates that `tpx profile hardware` measured. Rates are rounded to steps of 25 % below the fastest
// link; links in one step count as equal, so that noise does not concentrate what is sent on a few links.
namespace tpx::cli {

/// Sets the ranks of the links between the GPUs `gpu_infos` of the host `name`, for each kind of which all links were
/// measured: ranks from rates and from CUDA cannot be compared.
void rank_by_rate(GpuLinks& links, std::span<const GpuInfo> gpu_infos, const Hardware& hardware,
                  const std::string& name);

/// The rates between the hosts with these names. The ranks of links are empty if a link was not measured, the NICs if
/// one was not, and both if `hardware` does not name a host.
HostRates rates_between(const Hardware& hardware, std::span<const std::string> names);

}  // namespace tpx::cli
