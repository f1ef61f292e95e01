// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/rank_progress.hpp"
#include "lib/exec/stop_signals.hpp"
#include "lib/exec/thread_pool.hpp"
#include "lib/exec/tiles.hpp"
#include "lib/exec/work_claims.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

namespace tpx {

/// Monitors all ranks while each does its share of the work: reports progress, detects that a rank has failed or was
/// asked to stop, and then ends the work on all ranks.
class RankMonitor {
public:
    RankMonitor(const mpi::Comm& comm, const ExecOptions& options, std::uint64_t total, std::uint64_t least_part);

    /// Sends the state of this rank to the others, and checks for stalls, including stalls of its own threads if they
    /// are busy. Returns false when all ranks must end, finished or not.
    bool look(RankProgress::State mine, bool is_busy);

    /// Throws the error that ended the work on all ranks, if there was one on any rank. Collective.
    void settle(const Error* mine) const;

    bool ended() const { return ended_; }

    /// The parts of the job that this rank has asked for in its states and has not taken yet.
    WorkClaims& claims() { return claims_; }

private:
    void report_progress(std::uint64_t done);

    const mpi::Comm& comm_;
    const ExecOptions& options_;
    std::uint64_t total_;
    RankProgress rank_progress_;
    WorkClaims claims_;
    RankProgress::State all_;
    bool ended_ = false;
    std::chrono::steady_clock::time_point told_;
};

/// Gives the jobs of this rank's share to its threads, while a RankMonitor monitors all ranks.
template <class Job>
class ShareRunner {
public:
    /// `work(thread, job)` does a job; `done()` returns how many of `total` bytes this rank has done; claim() returns
    /// parts of at least `least_part` bytes.
    ShareRunner(const mpi::Comm& comm, const ExecOptions& options, std::uint64_t total, std::uint64_t least_part,
                std::function<void(int, Job&)> work, std::function<std::uint64_t()> done)
        : done_{std::move(done)},
          cancelled_{options.cancelled},
          monitor_{comm, options, total, least_part},
          thread_pool_{options.threads, std::move(work)} {}

    /// Waits for room in the queue and adds a job. Returns false if no more jobs are wanted.
    bool give(Job&& job) {
        while (!monitor_.ended()) {
            if (!look(false)) break;
            if (thread_pool_.ready(patience)) {
                thread_pool_.push(std::move(job));
                return true;
            }
        }
        return false;
    }

    /// Checks on all ranks. Returns false if no more jobs are wanted.
    bool should_continue() { return look(false); }

    /// The next part of the job for this rank; an empty part if all bytes are assigned or all ranks must end.
    ByteRange claim() {
        ++asked_;
        while (look(false)) {
            if (const auto part = monitor_.claims().next()) return *part;
            std::this_thread::sleep_for(std::chrono::microseconds{100});
        }
        return {};
    }

    /// Waits for all ranks. Throws an mpi::AgreedError if a job failed on any rank, or if a rank was asked to stop.
    void finish() {
        while (!monitor_.ended()) {
            const bool finished = thread_pool_.idle(patience);
            if (!look(finished)) break;
            // Other ranks are still working, perhaps for hours.
            if (finished) std::this_thread::sleep_for(patience);
        }
        // A thread may be in a system call that does not return.
        while (!thread_pool_.rest(patience)) mpi::call_hook(true);
        thread_pool_.stop();
        const auto error = thread_pool_.error();
        monitor_.settle(error ? &*error : nullptr);
    }

private:
    static constexpr std::chrono::milliseconds patience{2};

    bool look(bool finished) { return monitor_.look(state(finished), thread_pool_.is_busy()); }

    RankProgress::State state(bool finished) {
        const int signal = cancelled_ != nullptr ? cancelled_->load() : 0;
        return {done_(), finished, thread_pool_.error().has_value(), signal != 0, exit_of(signal) == Exit::interrupted,
                asked_};
    }

    std::function<std::uint64_t()> done_;
    const std::atomic<int>* cancelled_;
    std::uint64_t asked_ = 0;
    RankMonitor monitor_;
    ThreadPool<Job> thread_pool_;
};

/// What the threads of a rank do with tiles, and how far they are.
struct TileWork {
    std::function<void(int thread, Tile& tile)> work;
    std::function<std::uint64_t()> done;  ///< bytes
};

/// Processes the tiles of a job that are not `done` yet, on the threads of all ranks; each rank claims parts of the job
/// until all are assigned. Consecutive small tiles are processed together as long as they take at most `batch` bytes of
/// memory. Collective; fails like ShareRunner::finish.
void process_tiles(const mpi::Comm& comm, const ExecOptions& options, const Tiler& tiler, const ByteRanges& done,
                   std::uint64_t batch, TileWork work);

/// Processes the tiles of this rank's `share` on its threads, each tile by itself. Collective; fails like
/// ShareRunner::finish.
void process_tiles(const mpi::Comm& comm, const ExecOptions& options, const Tiler& tiler, const TileShare& share,
                   TileWork work);

}  // namespace tpx
