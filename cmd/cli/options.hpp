// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tpx::cli {

/// What every command that reads a checkpoint can be told about it; empty: not given.
struct ReadOptions {
    std::vector<std::string> rules;
    std::string config;
    std::vector<std::string> settings;
    bool allows_missing_files = false;  ///< set by tpx hold --ranks: files that are not read may be missing
};

/// What every command that draws up another checkpoint is told about it; empty: as the source has it.
struct TargetOptions {
    std::string to;
    std::string format;
    std::string dialect;
};

/// Techniques that plans or layouts must not use, or may use; both empty: all.
struct TechniqueOptions {
    std::vector<std::string> without, only;
};

/// What a process may use, and how long it waits for others.
struct LimitOptions {
    std::optional<std::uint64_t> memory;
    std::string threads;
    int usual_threads = 2;  ///< without --threads
    std::string patience;
    std::string io_ranks;
    std::string log;  ///< of reshard and migrate
};

}  // namespace tpx::cli
