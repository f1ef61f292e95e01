// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tpx::formats {

/// Looks a variable of the environment up.
using Environment = std::function<std::optional<std::string>(const char*)>;

/// The hosts of the Slurm job that `environment` tells of: SLURM_JOB_NODELIST, each with SLURM_GPUS_ON_NODE devices
/// or, where the job has no GPUs, with the tasks of SLURM_TASKS_PER_NODE ("8(x3),4"). Throws Error (usage) outside a
/// job, and when the variables contradict each other.
std::vector<Host> slurm_hosts(const Environment& environment);

}  // namespace tpx::formats
