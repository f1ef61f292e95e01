// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migration.hpp"

#include <string>
#include <vector>

namespace tpx::cli {

/// The layout that --to auto chooses for the state in `job`, whose source is open: of all layouts that fill the devices
/// of the hosts that remain, the one that `tpx plan --to auto` lists first. Sets `job.choice`. Throws Error (usage, no)
/// if there is none.
std::string choose_layout(const MigrateRequest& options, const std::vector<Host>& hosts, Migration& job);

}  // namespace tpx::cli
