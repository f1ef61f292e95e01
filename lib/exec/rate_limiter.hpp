// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace tpx {

/// Limits the rates, in bytes per second, at which a process reads and writes. Reads and writes can each use the whole
/// rate. Any number of threads may share a RateLimiter.
class RateLimiter {
public:
    explicit RateLimiter(double rate) : rate_{rate} {}

    double rate() const { return rate_; }

    /// Counts bytes that were read and written, and waits until the rates allow them. Returns early if `cancelled` is
    /// not null and no longer 0.
    void throttle(std::uint64_t read, std::uint64_t written, const std::atomic<int>* cancelled);

    /// Counts bytes that were read or written, without waiting.
    void count_read(std::uint64_t bytes) { add(reading_, bytes); }
    void count_written(std::uint64_t bytes) { add(writing_, bytes); }

    /// Whether the rates allow reading or writing now.
    bool may_read() { return is_over(reading_); }
    bool may_write() { return is_over(writing_); }

private:
    using Clock = std::chrono::steady_clock;

    Clock::time_point add(Clock::time_point& end, std::uint64_t bytes);
    bool is_over(const Clock::time_point& end);

    double rate_;
    std::mutex mutex_;
    Clock::time_point reading_;  // the time at which all counted bytes are allowed
    Clock::time_point writing_;
};

}  // namespace tpx
