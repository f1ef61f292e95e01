// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/commands.hpp"

#include "formats/files/data/data_position.hpp"
#include "formats/files/profile/assignment_file.hpp"

#include <optional>
#include <string>

namespace tpx::cli {

/// All options of tpx migrate: MigrateOptions, and those for managed stores, leaving hosts and data.
struct MigrateRequest : MigrateOptions {
    std::string store;
    std::string import_from;
    std::string export_to;
    std::string background_rate;
    std::string job;
    std::string iteration;
    std::string leaving;
    std::string within;
    std::string rejoin;
    std::string replicas;
    std::string fallback;
    std::string decision_dir;
    std::string data;
    std::string data_store;
    std::optional<formats::DataPosition> position;  ///< read from `data`, if given
    std::string assignment;
    std::optional<formats::Assignment> assigned;  ///< read from `assignment`, if given
    bool prune = false;
    std::string hold;  ///< seconds for which each host also holds the state of its ranks in memory
    std::string hold_name;
    std::string hold_device;
};

/// Runs tpx migrate, with managed stores or plain folders.
void run_migrate(const MigrateRequest& request, Output& out);

}  // namespace tpx::cli
