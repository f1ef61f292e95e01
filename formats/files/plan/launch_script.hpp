// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/placement.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// The folders that ranks use, each empty or one for each host.
struct LaunchFolders {
    std::vector<std::filesystem::path> states;  ///< from which ranks load their state: TPX_STATE
    std::vector<std::filesystem::path> data;    ///< that contain the data files: TPX_DATA
};

/// A shell script that starts the ranks of `layout` on the hosts and devices of `placement`, with torchrun, srun or
/// Open MPI's mpirun; its first lines explain how. It gives every rank the variables that torchrun sets, and
/// CUDA_VISIBLE_DEVICES in the order of the local ranks. A host with several blocks of consecutive ranks runs one
/// torchrun per block. Throws Error (usage) for a host name that launchers or the shell would misread.
std::string launch_script(std::span<const Host> hosts, const Placement& placement, std::string_view layout,
                          const LaunchFolders& folders = {});

/// Throws Error (usage) for a host that is not lost, or a folder in `folders`, that a launch script cannot contain.
void check_launch_names(std::span<const Host> hosts, const LaunchFolders& folders);

/// The text of launch.sh, which is compiled in: the script with placeholders such as @RANKS@ for values from the plan.
std::string_view launch_template();

}  // namespace tpx::formats
