// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/heartbeats.hpp"

#include "lib/core/host_name.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tpx {
namespace {

const std::byte beat{0};  // outlives every message in transit

}  // namespace

Heartbeats::Heartbeats(const mpi::Comm& comm, std::chrono::seconds patience)
    : comm_{comm},
      patience_{patience},
      interval_{std::min<Clock::duration>(std::chrono::seconds{1}, Clock::duration{patience} / 8)},
      sent_{Clock::now()} {
    if (comm.size() == 1 || patience.count() == 0) return;
    hosts_ = mpi::all_gather(comm, host_name());
    const int first = comm.rank() == 0 ? 1 : 0, last = comm.rank() == 0 ? comm.size() : 1;
    for (int rank = first; rank < last; ++rank) peers_.push_back({rank, Clock::now()});
}

Heartbeats::~Heartbeats() {
    for (Peer& peer : peers_) peer.request.release();
}

std::optional<std::string> Heartbeats::lost_rank() {
    if (peers_.empty()) return std::nullopt;
    receive();
    const auto now = Clock::now();
    if (now - sent_ >= interval_) send();
    const auto silent = std::ranges::find_if(peers_, [&](const Peer& p) { return now - p.heard > patience_; });
    if (silent == peers_.end()) return std::nullopt;
    return fmt::format("rank {} on host {}", silent->rank, hosts_[static_cast<std::size_t>(silent->rank)]);
}

// Keeps at most one unfinished message for each rank.
void Heartbeats::send() {
    // A process that was itself stopped must hear from the others before it may count them as lost.
    const bool was_stopped = Clock::now() - sent_ > std::max<Clock::duration>(2 * interval_, patience_ / 2);
    sent_ = Clock::now();
    for (Peer& peer : peers_) {
        if (peer.request.test()) peer.request = mpi::start_send(comm_, peer.rank, mpi::Tag::beat, {&beat, 1});
        if (was_stopped) peer.heard = sent_;
    }
}

void Heartbeats::receive() {
    while (const auto rank = mpi::find_message(comm_, mpi::Tag::beat)) {
        std::byte received{};
        mpi::receive_busy(comm_, *rank, mpi::Tag::beat, {&received, 1});
        peers_[comm_.rank() == 0 ? static_cast<std::size_t>(*rank) - 1 : 0].heard = Clock::now();
    }
}

}  // namespace tpx
