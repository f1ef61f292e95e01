// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/options.hpp"
#include "cmd/plan/plan.hpp"
#include "formats/files/data/data_position.hpp"
#include "formats/files/profile/assignment_file.hpp"

#include <optional>
#include <string>

namespace tpx::cli {

/// All options of tpx migrate.
struct MigrateRequest {
    PlanOptions plan;  ///< includes the stores; options that tpx migrate lacks have their defaults
    LimitOptions limits;
    std::string output;
    bool emulate = false;
    bool dry_run = false;
    bool restart = false;
    std::string store;
    std::string import_from;
    std::string export_to;
    Rate background_rate;
    std::string job;
    Integer iteration;
    std::string leaving;
    Duration within;
    std::string rejoin;
    Integer replicas;
    std::string fallback;
    std::string decision_dir;
    std::string data;
    std::string data_store;
    std::optional<formats::DataPosition> position;  ///< read from `data`, if given
    std::string assignment;
    std::optional<formats::BatchAssignment> assigned;  ///< read from `assignment`, if given
    bool prune = false;
    std::string hold;  ///< seconds for which each host also holds the state of its ranks in memory
    std::string hold_name;
    std::string hold_device;
};

/// Whether the current state is compared with its checksums during the move. False with --prune and --within, which
/// need an intact state first, and with --background-rate, which limits reads.
inline bool checks_during_move(const MigrateRequest& options) {
    return !options.within && !options.prune && !options.background_rate;
}

}  // namespace tpx::cli
