// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tpx::cli {

/// From now on, this process prints its results and errors, whatever rank a launcher gave it: is_first_rank() is true,
/// also for each Output that is made afterwards. For a command that runs on each
/// host and communicates with no other process.
void act_as_own_job();

}  // namespace tpx::cli
