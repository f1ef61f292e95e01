// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/crew.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"
#include "lib/exec/pulse.hpp"
#include "lib/exec/signals.hpp"
#include "lib/exec/tiles.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

namespace tpx {

/// Looks after the work of all ranks while each does its share: calls for progress, notices that one has failed or was
/// asked to stop, and then ends all.
class Watch {
public:
    Watch(const mpi::Comm& comm, const ExecOptions& options, std::uint64_t total);

    /// Tells the others how this rank is doing. Returns false when all shall end, finished or not.
    bool look(Pulse::State mine);

    /// Throws what ended the work on all ranks, if anything went wrong anywhere. Collective.
    void settle(const Error* mine) const;

    bool ended() const { return ended_; }

private:
    void tell_progress(std::uint64_t done);

    const mpi::Comm& comm_;
    const ExecOptions& options_;
    std::uint64_t total_;
    Pulse pulse_;
    Pulse::State all_;
    bool ended_ = false;
    std::chrono::steady_clock::time_point told_;
};

/// Gives the jobs of this rank's share to its threads, while a Watch looks after all ranks.
template <class Job>
class Shares {
public:
    /// `work(thread, job)` does a job; `done()` says how many of `total` bytes this rank has done.
    Shares(const mpi::Comm& comm, const ExecOptions& options, std::uint64_t total, std::function<void(int, Job&)> work,
           std::function<std::uint64_t()> done)
        : done_{std::move(done)},
          cancelled_{options.cancelled},
          watch_{comm, options, total},
          crew_{options.threads, std::move(work)} {}

    /// Waits for a free place in the queue. Returns false when no more jobs are wanted.
    bool give(Job&& job) {
        while (!watch_.ended()) {
            if (!watch_.look(state(false))) break;
            if (crew_.ready(patience)) {
                crew_.push(std::move(job));
                return true;
            }
        }
        return false;
    }

    /// Waits for all ranks. Throws an mpi::AgreedError when a job failed on any rank, or when a rank was told to stop.
    void finish() {
        while (!watch_.ended()) {
            const bool finished = crew_.idle(patience);
            if (!watch_.look(state(finished))) break;
            // The others are still at it, perhaps for hours.
            if (finished) std::this_thread::sleep_for(patience);
        }
        crew_.stop();
        const auto error = crew_.error();
        watch_.settle(error ? &*error : nullptr);
    }

private:
    static constexpr std::chrono::milliseconds patience{2};

    Pulse::State state(bool finished) {
        const int signal = cancelled_ != nullptr ? cancelled_->load() : 0;
        return {done_(), finished, crew_.error().has_value(), signal != 0, exit_of(signal) == Exit::interrupted};
    }

    std::function<std::uint64_t()> done_;
    const std::atomic<int>* cancelled_;
    Watch watch_;
    Crew<Job> crew_;
};

/// Has the threads of all ranks do the tiles, each rank its share, several small ones at a time as long as they take no
/// more than `batch` bytes of memory; `work` and `done` are those of Shares. Collective; fails as Shares::finish does.
void deal(const mpi::Comm& comm, const ExecOptions& options, const Tiler& tiler, std::uint64_t batch,
          std::function<void(int, Tile&)> work, std::function<std::uint64_t()> done);

}  // namespace tpx
