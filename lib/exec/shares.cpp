// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/shares.hpp"

namespace tpx {

Watch::Watch(const mpi::Comm& comm, const ExecOptions& options, std::uint64_t total)
    : comm_{comm}, options_{options}, total_{total}, pulse_{comm} {}

bool Watch::look(Pulse::State mine) {
    if (ended_) return false;
    const auto all = pulse_.beat(mine);
    if (!all) return true;
    all_ = *all;
    tell_progress(all_.bytes);
    ended_ = all_.failed != 0 || all_.stopped != 0 || all_.finished == static_cast<std::uint64_t>(comm_.size());
    return !ended_;
}

void Watch::tell_progress(std::uint64_t done) {
    using namespace std::chrono_literals;
    if (comm_.rank() != 0 || !options_.progress) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < 100ms) return;
    told_ = now;
    options_.progress(done, total_);
}

void Watch::settle(const Error* mine) const {
    mpi::agree(comm_, mine);
    if (all_.stopped == 0) return;
    const Error stopped{all_.interrupted != 0 ? Exit::interrupted : Exit::resumable, "stopped on request"};
    mpi::agree(comm_, &stopped);
}

void deal(const mpi::Comm& comm, const ExecOptions& options, const Tiler& tiler, std::uint64_t batch,
          std::function<void(int, Tile&)> work, std::function<std::uint64_t()> done) {
    Shares<Tile> shares{comm, options, tiler.bytes(), std::move(work), std::move(done)};
    Tile together;
    tiler.for_each(comm.rank(), comm.size(), [&](Tile&& tile) {
        if (!together.parts.empty() && together.memory + tile.memory > batch) {
            if (!shares.give(std::exchange(together, Tile{}))) return false;
        }
        together.append(tile);
        return true;
    });
    shares.give(std::move(together));
    shares.finish();
}

}  // namespace tpx
