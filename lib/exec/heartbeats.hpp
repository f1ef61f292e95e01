// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tpx {

/// Detects ranks that no longer answer, because they are stopped or their network is down. Rank 0 exchanges a message
/// with each other rank once a second, or more often if the patience is short.
class Heartbeats {
public:
    /// Collective. A rank that is silent for `patience` counts as lost; 0 means never.
    Heartbeats(const mpi::Comm& comm, std::chrono::seconds patience);
    ~Heartbeats();
    Heartbeats(const Heartbeats&) = delete;
    Heartbeats& operator=(const Heartbeats&) = delete;

    /// Call it often. Returns the name of a lost rank, if there is one: "rank 3 on host n2".
    std::optional<std::string> lost_rank();

private:
    using Clock = std::chrono::steady_clock;

    struct Peer {
        int rank = 0;
        Clock::time_point heard;
        mpi::Request request;
    };

    void send();
    void receive();

    const mpi::Comm& comm_;
    std::chrono::seconds patience_;
    Clock::duration interval_;  // between beats
    std::vector<Peer> peers_;
    std::vector<std::string> hosts_;
    Clock::time_point sent_;
};

}  // namespace tpx
