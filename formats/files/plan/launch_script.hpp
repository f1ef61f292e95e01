// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/placement.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tpx::formats {

/// A shell script that starts the ranks of `layout` on the hosts and devices of `placement`, with torchrun, srun or
/// Open MPI's mpirun; its first lines explain how. It gives every rank the variables that torchrun sets, and
/// CUDA_VISIBLE_DEVICES in the order of the local ranks. A host with several blocks of consecutive ranks runs one
/// torchrun per block. `states`, empty or one for each host, are the folders from which ranks load their state, which
/// they get as TPX_STATE. Throws Error (usage) for a host name that launchers or the shell would misread.
std::string launch_script(std::span<const Host> hosts, const Placement& placement, std::string_view layout,
                          std::span<const std::filesystem::path> states = {});

/// Throws Error (usage) for a host that is not lost, or a folder in `states`, that a launch script cannot contain.
void check_launch_names(std::span<const Host> hosts, std::span<const std::filesystem::path> states);

/// The text of launch.sh, which is compiled in: the script with placeholders such as @RANKS@ for what a plan decides.
std::string_view launch_template();

}  // namespace tpx::formats
