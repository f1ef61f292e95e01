// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tpx::cli {

/// Options of every command that reads a checkpoint; empty: not given.
struct ReadOptions {
    std::vector<std::string> rules;
    std::string config;
    std::vector<std::string> settings;
    bool allows_missing_files = false;  ///< set by tpx hold --ranks: files that are not read may be missing
};

/// Options of every command that plans or writes a new checkpoint; empty: as in the source.
struct TargetOptions {
    std::string to;
    std::string format;
    std::string dialect;
};

/// Techniques that plans or layouts must not use (`without`) or may use (`only`); both empty: all are allowed.
struct TechniqueOptions {
    std::vector<std::string> without, only;
};

constexpr int max_threads = 1024;  ///< upper limit of --threads, per process

/// Resource limits of a process, and how long it waits for other ranks.
struct LimitOptions {
    std::optional<std::uint64_t> memory;
    Integer threads;
    int default_threads = 2;  ///< default of --threads
    Integer patience;         ///< seconds
    Integer io_ranks;
    std::string log;  ///< of reshard and migrate
};

}  // namespace tpx::cli
