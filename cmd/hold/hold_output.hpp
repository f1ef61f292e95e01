// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/options.hpp"
#include "cmd/jobs/reshard_job.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/stop_signals.hpp"
#include "lib/layout/layout.hpp"

#include <string>
#include <vector>

namespace tpx::cli {

/// A complete checkpoint that is also to be held in memory.
struct HeldOutput {
    std::string path;
    std::string name;     ///< hold:NAME
    std::string seconds;  ///< or "none"
    std::string device;   ///< as HoldOptions has it
    std::string layout;
    std::vector<int> ranks;      ///< of this host; empty: all
    std::vector<int> rank_gpus;  ///< of these ranks; empty: the K-th rank uses GPU K
};

/// Throws Error unless state can be held as `name` for `seconds` on this host.
void check_hold(const std::string& name, const std::string& seconds);

/// Runs `tpx hold` in a process that is no rank of this job; the keeper that it starts outlives both. Throws Error if
/// the state cannot be held, or if a signal of `signals` arrives.
void start_hold(const HeldOutput& output, const ReadOptions& reading, const StopSignals& signals);

/// The name of held state that is the last part of `path`. Throws Error if it cannot be one.
std::string hold_name_of(const std::string& path);

/// The name under which --hold holds the output. Throws Error if there is none.
std::string held_output_name(const ReshardOptions& options);

/// Throws an mpi::AgreedError unless the output can be held under its name, as --hold asks, and it is known which ranks
/// run on which host. Collective.
void check_hold(const mpi::Comm& comm, const ReshardOptions& options, const Layout& layout);

/// Starts `tpx hold` for the output, which is complete, on each host. Throws an mpi::AgreedError with the status
/// exit_after_commit if the state cannot be held. Collective.
void hold_output(const mpi::Comm& comm, const ReshardOptions& options, const Layout& layout, const StopSignals& signals,
                 const Output& out);

}  // namespace tpx::cli
