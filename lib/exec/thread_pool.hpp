// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/unexpected.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace tpx {

/// Threads that take jobs from a short queue. The first error of a job stops all threads.
template <class Job>
class ThreadPool {
public:
    /// Thread number `worker`, from 0 on, calls `work(worker, job)`. Throws Error if the system cannot start that many
    /// threads.
    ThreadPool(int workers, std::function<void(int, Job&)> work) : work_{std::move(work)} {
        try {
            for (int k = 0; k < workers; ++k) threads_.emplace_back([this, k] { run(k); });
        } catch (const std::system_error& error) {
            const std::size_t started = threads_.size();
            stop();
            throw failure("cannot start {} threads, only {}: {}", workers, started, error.code().message());
        }
    }
    /// Waits for the jobs that have begun; discards the others.
    ~ThreadPool() { stop(); }

    /// Waits at most `patience` for room in the queue; returns whether there is room.
    bool ready(std::chrono::milliseconds patience) {
        std::unique_lock lock{mutex_};
        return changed_.wait_for(lock, patience, [&] { return jobs_.size() < threads_.size(); });
    }
    void push(Job&& job) {
        const std::lock_guard lock{mutex_};
        jobs_.push_back(std::move(job));
        changed_.notify_all();
    }
    /// Waits at most `patience` until all jobs are done or one has failed; returns whether that is so.
    bool idle(std::chrono::milliseconds patience) {
        std::unique_lock lock{mutex_};
        return changed_.wait_for(lock, patience, [&] { return error_ || (jobs_.empty() && busy_ == 0); });
    }
    bool is_busy() {
        const std::lock_guard lock{mutex_};
        return busy_ > 0;
    }
    /// Gives no more jobs to the threads. Waits at most `patience` for the running jobs; returns whether these are
    /// done.
    bool rest(std::chrono::milliseconds patience) {
        std::unique_lock lock{mutex_};
        stopping_ = true;
        changed_.notify_all();
        return changed_.wait_for(lock, patience, [&] { return busy_ == 0; });
    }
    std::optional<Error> error() {
        const std::lock_guard lock{mutex_};
        return error_;
    }
    void stop() {
        {
            const std::lock_guard lock{mutex_};
            stopping_ = true;
            changed_.notify_all();
        }
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
    }

private:
    void run(int worker) {
        std::unique_lock lock{mutex_};
        for (;;) {
            changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
            if (stopping_) return;
            Job job = std::move(jobs_.front());
            jobs_.pop_front();
            ++busy_;
            changed_.notify_all();
            lock.unlock();
            std::optional<Error> error = attempt(worker, job);
            lock.lock();
            --busy_;
            if (error && !error_) error_ = std::move(error);
            if (error_) stopping_ = true;
            changed_.notify_all();
        }
    }
    std::optional<Error> attempt(int worker, Job& job) {
        try {
            work_(worker, job);
        } catch (const Error& error) {
            return error;
        } catch (const std::exception& error) {
            return unexpected(error);
        }
        return std::nullopt;
    }

    std::function<void(int, Job&)> work_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Job> jobs_;
    int busy_ = 0;
    bool stopping_ = false;
    std::optional<Error> error_;
    std::vector<std::thread> threads_;
};

}  // namespace tpx
