// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/hosts/migrate_request.hpp"

namespace tpx::cli {

/// Runs tpx migrate, with managed stores or plain folders.
void run_migrate(const MigrateRequest& request, Output& out);

/// Describes `tpx migrate`.
void add_migrate(Cli& cli);

}  // namespace tpx::cli
