// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold.hpp"
#include "cmd/keeper.hpp"
#include "cmd/reshard_job.hpp"
#include "lib/core/read_record.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tpx::cli {

/// The state of some ranks, about to be read into memory.
struct HoldJob {
    ReshardJob job;
    std::uint64_t bytes = 0;  ///< of memory that it will take
    std::uint64_t room = 0;   ///< of memory that processes can still take
};

/// Opens the checkpoint and plans what each rank gets. Throws Error if it does not fit into memory, and as prepare().
HoldJob prepare_hold(const HoldOptions& options);

/// What was read into memory.
struct HeldFiles {
    std::vector<HeldPart> parts;
    Fd config;  ///< a config.json; null: none
    double seconds = 0;
};

/// Reads the state. Throws Error if a file that was read, as `record` has it, has changed since.
HeldFiles read_into_memory(const HoldJob& job, const HoldOptions& options, const ReadRecord& record, Output& out);

}  // namespace tpx::cli
