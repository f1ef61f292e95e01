// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/share_runner.hpp"

#include "lib/exec/arrivals.hpp"

#include <deque>

namespace tpx {

RankMonitor::RankMonitor(const mpi::Comm& comm, const ExecOptions& options, std::uint64_t total,
                         std::uint64_t least_part)
    : comm_{comm},
      options_{options},
      total_{total},
      rank_progress_{comm},
      claims_{total, comm.size(), comm.rank(), least_part} {}

bool RankMonitor::look(RankProgress::State mine, bool is_busy) {
    if (ended_) return false;
    mpi::call_hook(is_busy);
    const auto all = rank_progress_.beat(mine);
    if (!all) return true;
    all_ = *all;
    claims_.process_requests(rank_progress_.asked());
    report_progress(all_.bytes);
    ended_ = all_.failed != 0 || all_.stopped != 0 || all_.finished == static_cast<std::uint64_t>(comm_.size());
    return !ended_;
}

void RankMonitor::report_progress(std::uint64_t done) {
    using namespace std::chrono_literals;
    if (comm_.rank() != 0 || !options_.progress) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < 100ms) return;
    told_ = now;
    options_.progress(done, total_, {});
}

void RankMonitor::settle(const Error* mine) const {
    mpi::agree(comm_, mine);
    if (all_.stopped == 0) return;
    const Error stopped{all_.interrupted != 0 ? Exit::interrupted : Exit::resumable, "stopped on request"};
    mpi::agree(comm_, &stopped);
}

namespace {

using TileRunner = ShareRunner<Tile>;

TileRunner shares_of(const mpi::Comm& comm, const ExecOptions& options, std::uint64_t total, std::uint64_t least_part,
                     TileWork&& work) {
    return {comm, options, total, least_part, std::move(work.work), std::move(work.done)};
}

/// Gives tiles to the threads of this rank: at once if their bytes are available, or else when their bytes have
/// arrived.
class TileQueue {
public:
    TileQueue(TileRunner& shares, Arrivals* arrivals) : shares_{shares}, arrivals_{arrivals} {}

    /// Returns false when no more tiles are wanted.
    bool give(Tile&& tile) {
        if (arrivals_ == nullptr) return shares_.give(std::move(tile));
        waiting_.push_back(std::move(tile));
        while (waiting_.size() > most_waiting)
            if (!wait()) return false;
        return give_arrived();
    }

    /// Gives all waiting tiles.
    void finish() {
        while (!waiting_.empty())
            if (!wait()) return;
    }

private:
    static constexpr std::size_t most_waiting = 4096;

    bool wait() {
        using namespace std::chrono_literals;
        const std::uint64_t seen = arrivals_->count();
        if (!give_arrived()) return false;
        if (waiting_.empty()) return true;
        arrivals_->wait(seen, 2ms);
        return shares_.should_continue();
    }

    bool give_arrived() {
        for (auto tile = waiting_.begin(); tile != waiting_.end();) {
            if (!arrivals_->contain(*tile)) {
                ++tile;
                continue;
            }
            if (!shares_.give(std::move(*tile))) return false;
            tile = waiting_.erase(tile);
        }
        return true;
    }

    TileRunner& shares_;
    Arrivals* arrivals_;
    std::deque<Tile> waiting_;
};

void give_tiles(const Tiler& tiler, const TileShare& share, std::uint64_t batch, Arrivals* arrivals,
                TileRunner& shares) {
    TileQueue queue{shares, arrivals};
    Tile together;
    std::uint64_t part = 0;
    const auto fits = [&](const Tile& tile) {
        return together.parts.empty() ||
               (part == share.part() && together.range().end == tile.begin && together.memory + tile.memory <= batch);
    };
    tiler.for_each(share, [&](Tile&& tile) {
        if (!fits(tile) && !queue.give(std::exchange(together, Tile{}))) return false;
        together.append(tile);
        part = share.part();
        return true;
    });
    if (!together.parts.empty()) queue.give(std::move(together));
    queue.finish();
    shares.finish();
}

}  // namespace

void process_tiles(const mpi::Comm& comm, const ExecOptions& options, const Tiler& tiler, const ByteRanges& done,
                   std::uint64_t batch, TileWork work) {
    TileRunner shares = shares_of(comm, options, tiler.bytes(), batch, std::move(work));
    if (!options.takes_part) return shares.finish();
    give_tiles(tiler, ClaimedShare{done, [&] { return shares.claim(); }}, batch, options.arrivals, shares);
}

void process_tiles(const mpi::Comm& comm, const ExecOptions& options, const Tiler& tiler, const TileShare& share,
                   TileWork work) {
    TileRunner shares = shares_of(comm, options, tiler.bytes(), 1, std::move(work));
    give_tiles(tiler, share, 0, nullptr, shares);
}

}  // namespace tpx
