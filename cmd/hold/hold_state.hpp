// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/hold.hpp"
#include "cmd/hold/keeper.hpp"
#include "cmd/jobs/reshard_job.hpp"
#include "lib/core/read_record.hpp"
#include "lib/exec/stop_signals.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tpx::cli {

class DirectMoves;

/// The state of some ranks, about to be read into memory.
struct HoldJob {
    ReshardJob job;
    std::uint64_t bytes = 0;  ///< of memory that it will take
    std::uint64_t saved = 0;  ///< bytes of them that need no host memory, because GPUs copy them
    std::uint64_t room = 0;   ///< of memory that processes can still take
    std::string limit;        ///< what limits it
};

/// Opens the checkpoint and plans what each rank gets. Throws Error as prepare_reshard().
HoldJob prepare_hold(const HoldOptions& options);

/// Throws Error if the state does not fit into memory.
void check_fits(const HoldJob& hold, const std::string& checkpoint);

/// The bytes of memory that the files of a draft occupy.
std::uint64_t bytes_in_memory(const Draft& draft);

/// The names of the files of a rank in the draft of what is held.
std::string segment_name(int rank);
std::string document_name(int rank);

/// What was read into memory.
struct HeldFiles {
    std::vector<HeldPart> parts;
    Fd config;         ///< a config.json; null: none
    std::string save;  ///< identifier of the save; empty: unknown
    double seconds = 0;
};

/// Creates a memory file, filled with zeros, for each file of a draft.
std::vector<Fd> make_files_in_memory(const Draft& draft);

/// Moves the files of `ranks`, and config.json if there is one, out of `files`, the memory files of `draft`.
HeldFiles take_files(const Draft& draft, std::vector<Fd>& files, const std::vector<int>& ranks);

/// Reads the state, without the tensors that `direct`, which may be null, copies later. Throws Error if a file that was
/// read, as `record` has it, has changed since, and after a signal.
HeldFiles read_into_memory(const HoldJob& hold, const HoldOptions& options, const ReadRecord& record,
                           const StopSignals& signals, const DirectMoves* direct, Output& out);

}  // namespace tpx::cli
