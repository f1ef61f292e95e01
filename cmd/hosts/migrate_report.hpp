// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migrate_ranks.hpp"
#include "cmd/hosts/migration.hpp"
#include "cmd/output/output.hpp"
#include "formats/files/store/manifest.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace tpx::cli {

/// The paths that a migration reads and writes, as the user gave them.
struct MigratePaths {
    std::string from;
    std::string to;
    std::string state;           ///< the folder from which new ranks load their state, with "{host}"; empty: `to`
    double background_rate = 0;  ///< bytes per second of each host; 0: no limit
    std::string data_store;      ///< the folder of the data files, with "{host}"; empty: not given
};

/// The files that only leaving hosts had, and whether they could be saved in time, as JSON.
nlohmann::ordered_json leaving_json(const LeavingPlan& plan);

/// Prints what was done or, if `done` is null, what would be done. `manifest` describes the new state in managed
/// stores; it is null for plain folders and shared storage.
void report(const Migration& job, const MigratePaths& places, const MigrateResult* done, Output& out,
            const formats::Manifest* manifest = nullptr);

/// Prints what was done by a change that is complete and stays so even if printing fails. Returns the reason why
/// printing failed, the same on all ranks; empty if it succeeded. Collective.
std::string report_done(const mpi::Comm& comm, const Migration& job, const MigratePaths& places,
                        const MigrateResult& done, Output& out, const formats::Manifest* manifest = nullptr);

/// Throws an mpi::AgreedError with exit_after_commit if `fault`, the result of report_done(), is not empty. `output`
/// names the output that is complete.
void require_reported(const std::string& fault, const std::string& output);

/// What launchers and trainers need to know about the current state of managed stores.
struct CurrentRanks {
    Index batch = 0;                  ///< samples of a global batch; 0: unknown
    nlohmann::ordered_json position;  ///< of the job in its data; null: the state contains none
    std::optional<RankPlaces> places;
    std::string data_store;                 ///< the folder of the data files, with "{host}"; empty: not given
    std::optional<DataCopies> data_copies;  ///< with --data-store
};

/// Prints the current state of managed stores after a run that moved nothing.
void report_current(const std::string& store, const formats::Manifest& manifest, const CurrentRanks& ranks,
                    Output& out);

}  // namespace tpx::cli
