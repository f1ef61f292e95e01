// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tpx::formats {

/// Looks up a variable of the environment.
using Environment = std::function<std::optional<std::string>(const char*)>;

/// The hosts of the current Slurm job, SLURM_JOB_NODELIST. Each has as many devices as SLURM_GPUS_PER_NODE ("8",
/// "a100:8"), SLURM_GPUS_ON_NODE or SLURM_JOB_GPUS specifies or, in a job without GPUs, as many as it has tasks
/// (SLURM_TASKS_PER_NODE, "8(x3),4"). Throws Error (usage) outside a job, and if hosts have different numbers of GPUs
/// or the variables contradict each other.
std::vector<Host> slurm_hosts(const Environment& environment);

}  // namespace tpx::formats
