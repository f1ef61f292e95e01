// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/managed_source.hpp"

#include <vector>

// The data files of a job in the data store of each host, with --data-store.
namespace tpx::cli {

/// Throws Error (usage) unless the options of `request` fit --data-store.
void check_data_store(const MigrateRequest& request);

/// Puts each file of `position` into the data store of each host of `members` that lacks it: from the folder of --data,
/// if the host can read it there, or else from another host. Each file is complete when it gets its name. Then all
/// hosts have the same content, by checksums. With --dry-run, only plans. Throws an mpi::AgreedError, with exit status
/// 3 if no host has a file. Collective.
DataCopies copy_data_files(const Managed& run, const formats::DataPosition& position, const std::vector<bool>& members);

}  // namespace tpx::cli
