// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/cli/options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tpx::cli {

struct PlanOptions : ReadOptions, TargetOptions, TechniqueOptions {
    std::string checkpoint;
    std::string model;
    std::string roles;
    std::string from;
    std::vector<std::string> via;
    std::string hosts;
    std::string hardware;
    std::string ranks_on;
    std::string stores;
    std::string lost;
    std::string spare;
    Rate nic;
    ReadWriteRates disk;
    std::optional<std::uint64_t> gpu_memory;
    std::string objective;
    std::string placement;
    std::string state;
    Integer iteration;
    Integer storage_iteration;
    std::optional<std::uint64_t> window;
    std::string output;
    std::string check;
    std::string report;
    std::string launch;
    std::string rank_map;
    Integer devices;
    Integer batch;
    Integer sequence;
    std::string throughput;
    bool pin = false;
    bool survive = false;
    bool derive_weights = false;
    bool list = false;
    Integer sample;
    bool full = false;
    bool pareto = false;
    Integer top;
};

void run_plan(const PlanOptions& options, Output& out);

/// Describes `tpx plan`.
void add_plan(Cli& cli);

}  // namespace tpx::cli
