// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/heartbeats.hpp"
#include "lib/exec/mpi.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>

namespace tpx {

/// While it exists, detects that another rank does not respond or that this rank's own work stalls: its threads use no
/// CPU time and transfer no bytes, as on a file system that blocks.
class StallGuard {
public:
    /// Calls `stalled` with "rank 3 on host n2 has not answered for 60 s", or "no progress for 60 s: write FILE", after
    /// `patience` without a sign of life; fsync and close, which may transfer many bytes unseen, are allowed ten times
    /// as long. `stalled` should end the process. Collective.
    StallGuard(const mpi::Comm& comm, std::chrono::seconds patience,
               std::function<void(const std::string& what)> stalled);
    StallGuard(const StallGuard&) = delete;
    StallGuard& operator=(const StallGuard&) = delete;

private:
    using Clock = std::chrono::steady_clock;

    void look(bool working);
    void look_at_own_work(Clock::time_point now);
    std::uint64_t signs_of_life() const;

    std::chrono::seconds patience_;
    std::function<void(const std::string&)> stalled_;
    std::set<std::string> others_;  // threads that do no work: those of MPI and this one
    Heartbeats heartbeats_;
    Clock::time_point looked_;
    Clock::time_point moved_;
    std::uint64_t signs_ = 0;
    mpi::WaitHook hook_;  // last, so that it is destroyed before the members that it uses
};

}  // namespace tpx
