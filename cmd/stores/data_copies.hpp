// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migrate_ranks.hpp"
#include "cmd/stores/managed_source.hpp"

#include <nlohmann/json.hpp>

#include <optional>

// Copies the data files of a job to the data store of each host, with --data-store.
namespace tpx::cli {

/// Throws Error (usage) if options of `request` cannot be used with --data-store.
void check_data_store(const MigrateRequest& request);

/// Copies each file of the data position of `job` to the data store of each host that has ranks and lacks the file:
/// from the folder of --data, if the host can read it there, or else from another host. A file gets its name only when
/// it is complete. Checksums ensure that all hosts have the same content. With --dry-run, only plans. Sets the data
/// copies of `job`. Does nothing without --data-store. Throws an mpi::AgreedError, with exit status 3 if no host has a
/// file. Collective.
void copy_data(const ManagedRun& run, ManagedJob& job);

/// The same for the current state. `position` is its data position, or null; `places` is where its ranks run, or null
/// if that is unknown.
std::optional<DataCopies> copy_data_of_current(const ManagedRun& run, const nlohmann::ordered_json& position,
                                               const RankPlaces* places);

}  // namespace tpx::cli
