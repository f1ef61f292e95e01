// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/migrate.hpp"
#include "cmd/output.hpp"
#include "cmd/store_survey.hpp"

#include <cstdint>
#include <string>

// Where tpx migrate --store reads from.
namespace tpx::cli {

/// The ranks and stores of a run with --store.
struct Managed {
    const mpi::Comm& comm;
    const mpi::Comm& host;  ///< the ranks of this host
    const MigrateRequest& options;
    const Team& team;
    const NodeStore& store;
    StoreSurvey survey;
};

/// A planned migration, and which state of which job it carries.
struct ManagedJob {
    Migration migration;
    std::string job;
    std::int64_t iteration = 0;
    std::string model;       ///< see Manifest
    bool is_import = false;  ///< read from a checkpoint instead of the stores
};

/// Plans from the checkpoint `path`: on shared storage, or in plain folders of all hosts if it has "{host}" in it.
/// Every file that is read is in `record`, which this seals. Throws an mpi::AgreedError. Collective.
ManagedJob plan_import(const Managed& run, const std::string& path, Purpose purpose, ReadRecord& record);

/// Plans from the files of the current state that are intact; from --fallback if they are not enough. Throws an
/// mpi::AgreedError (no) that names the tensors of which no host has an intact copy. Collective.
ManagedJob plan_from_stores(const Managed& run, const StoreCheck& check, Purpose purpose, ReadRecord& record,
                            Output& out);

}  // namespace tpx::cli
