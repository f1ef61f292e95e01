// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migrate_ranks.hpp"
#include "cmd/stores/managed_source.hpp"

#include <nlohmann/json.hpp>

#include <optional>

// The data files of a job in the data store of each host, with --data-store.
namespace tpx::cli {

/// Throws Error (usage) unless the options of `request` fit --data-store.
void check_data_store(const MigrateRequest& request);

/// Puts each file of the data position of `job` into the data store of each host with ranks that lacks it: from the
/// folder of --data, if the host can read it there, or else from another host. Each file is complete when it gets its
/// name. Then all hosts have the same content, by checksums. With --dry-run, only plans. Sets the copies of `job`. Does
/// nothing without --data-store. Throws an mpi::AgreedError, with exit status 3 if no host has a file. Collective.
void copy_data(const Managed& run, ManagedJob& job);

/// The same for the current state: its data position, or null, and where its ranks run, null if that is not known.
std::optional<DataCopies> copy_data_of_current(const Managed& run, const nlohmann::ordered_json& position,
                                               const RankPlaces* places);

}  // namespace tpx::cli
