// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migrate_request.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/output/output.hpp"

namespace tpx::cli {

/// tpx migrate --store: changes the state in managed stores, imports it from a checkpoint, or exports it. Collective.
Exit migrate_managed(const mpi::Comm& comm, const MigrateRequest& given, Patience& patience, Output& out);

}  // namespace tpx::cli
