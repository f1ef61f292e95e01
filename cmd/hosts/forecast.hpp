// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/wire/mirror.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tpx::cli {

/// The time, traffic and memory of tpx migrate, as predicted by a dry run. The time of a phase is that of the slowest
/// host.
struct Forecast {
    /// The resource that takes longest to move the state.
    struct Bottleneck {
        std::string resource;  ///< "NIC in", "NIC out", "disk read" or "disk write"; empty: nothing moves
        std::string host;
        std::uint64_t bytes = 0;
        double seconds = 0;
    };

    double check_seconds = 0;  ///< to compare the current state with its checksums; 0: compared while it moves
    double save_seconds = 0;   ///< with --within: to save what only leaving hosts have
    double plan_seconds = 0;   ///< on a machine as fast as this one
    Bottleneck move;           ///< reading, sending, receiving and writing overlap, as with one process per host
    std::vector<std::string> assumed_rates;

    std::uint64_t messages = 0;        ///< with tensor data
    MirrorTraffic metadata;            ///< what rank 0 reads from the stores, and sends to other ranks
    std::uint64_t manifest_bytes = 0;  ///< on each host
    std::uint64_t plan_memory = 0;     ///< of each process, including the program itself
    std::uint64_t buffer_memory = 0;   ///< of each process, at most

    double seconds() const { return check_seconds + save_seconds + plan_seconds + move.seconds; }
    std::uint64_t memory() const { return plan_memory + buffer_memory; }
};

}  // namespace tpx::cli
