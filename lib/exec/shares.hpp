// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/claims.hpp"
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
    Watch(const mpi::Comm& comm, const ExecOptions& options, std::uint64_t total, std::uint64_t least_part);

    /// Tells the others how this rank is doing, and looks for stalls, also of its own threads if they are busy. Returns
    /// false when all shall end, finished or not.
    bool look(Pulse::State mine, bool is_busy);

    /// Throws what ended the work on all ranks, if anything went wrong anywhere. Collective.
    void settle(const Error* mine) const;

    bool ended() const { return ended_; }

    /// The parts of the job that this rank has asked for in its states and not yet taken from here.
    Claims& claims() { return claims_; }

private:
    void tell_progress(std::uint64_t done);

    const mpi::Comm& comm_;
    const ExecOptions& options_;
    std::uint64_t total_;
    Pulse pulse_;
    Claims claims_;
    Pulse::State all_;
    bool ended_ = false;
    std::chrono::steady_clock::time_point told_;
};

/// Gives the jobs of this rank's share to its threads, while a Watch looks after all ranks.
template <class Job>
class Shares {
public:
    /// `work(thread, job)` does a job; `done()` says how many of `total` bytes this rank has done; claim() returns
    /// parts of at least `least_part` bytes.
    Shares(const mpi::Comm& comm, const ExecOptions& options, std::uint64_t total, std::uint64_t least_part,
           std::function<void(int, Job&)> work, std::function<std::uint64_t()> done)
        : done_{std::move(done)},
          cancelled_{options.cancelled},
          watch_{comm, options, total, least_part},
          crew_{options.threads, std::move(work)} {}

    /// Waits for a free place in the queue. Returns false when no more jobs are wanted.
    bool give(Job&& job) {
        while (!watch_.ended()) {
            if (!look(false)) break;
            if (crew_.ready(patience)) {
                crew_.push(std::move(job));
                return true;
            }
        }
        return false;
    }

    /// Looks after all ranks. Returns false when no more jobs are wanted.
    bool goes_on() { return look(false); }

    /// The next part of the job for this rank; an empty one when all bytes are dealt, or when all shall end.
    ByteRange claim() {
        ++asked_;
        while (look(false)) {
            if (const auto part = watch_.claims().next()) return *part;
            std::this_thread::sleep_for(std::chrono::microseconds{100});
        }
        return {};
    }

    /// Waits for all ranks. Throws an mpi::AgreedError when a job failed on any rank, or when a rank was told to stop.
    void finish() {
        while (!watch_.ended()) {
            const bool finished = crew_.idle(patience);
            if (!look(finished)) break;
            // The others are still at it, perhaps for hours.
            if (finished) std::this_thread::sleep_for(patience);
        }
        // A thread may be in a system call that does not return.
        while (!crew_.rest(patience)) mpi::call_hook(true);
        crew_.stop();
        const auto error = crew_.error();
        watch_.settle(error ? &*error : nullptr);
    }

private:
    static constexpr std::chrono::milliseconds patience{2};

    bool look(bool finished) { return watch_.look(state(finished), crew_.is_busy()); }

    Pulse::State state(bool finished) {
        const int signal = cancelled_ != nullptr ? cancelled_->load() : 0;
        return {done_(), finished, crew_.error().has_value(), signal != 0, exit_of(signal) == Exit::interrupted,
                asked_};
    }

    std::function<std::uint64_t()> done_;
    const std::atomic<int>* cancelled_;
    std::uint64_t asked_ = 0;
    Watch watch_;
    Crew<Job> crew_;
};

/// What the threads of a rank do with tiles, and how far they are.
struct TileWork {
    std::function<void(int thread, Tile& tile)> work;
    std::function<std::uint64_t()> done;  ///< bytes
};

/// Has the threads of all ranks do the tiles of a job that are not `done` yet; each rank claims parts of the job until
/// all are dealt. Several small tiles that follow each other are done at a time as long as they take no more than
/// `batch` bytes of memory. Collective; fails as Shares::finish does.
void deal(const mpi::Comm& comm, const ExecOptions& options, const Tiler& tiler, const ByteRanges& done,
          std::uint64_t batch, TileWork work);

/// Has the threads of this rank do the tiles of its `share`, each by itself. Collective; fails as Shares::finish does.
void deal(const mpi::Comm& comm, const ExecOptions& options, const Tiler& tiler, const Share& share, TileWork work);

}  // namespace tpx
