// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/rate_limiter.hpp"

#include <algorithm>
#include <thread>

namespace tpx {

void RateLimiter::throttle(std::uint64_t read, std::uint64_t written, const std::atomic<int>* cancelled) {
    using namespace std::chrono_literals;
    constexpr auto longest_sleep = 50ms;  // a stop request is noticed after this time
    const Clock::time_point end = std::max(add(reading_, read), add(writing_, written));
    while (cancelled == nullptr || cancelled->load() == 0) {
        const Clock::time_point now = Clock::now();
        if (now >= end) return;
        std::this_thread::sleep_for(std::min<Clock::duration>(end - now, longest_sleep));
    }
}

RateLimiter::Clock::time_point RateLimiter::add(Clock::time_point& end, std::uint64_t bytes) {
    const std::chrono::duration<double> time{static_cast<double>(bytes) / rate_};
    const std::lock_guard lock{mutex_};
    end = std::max(end, Clock::now()) + std::chrono::duration_cast<Clock::duration>(time);
    return end;
}

bool RateLimiter::is_over(const Clock::time_point& end) {
    const std::lock_guard lock{mutex_};
    return Clock::now() >= end;
}

}  // namespace tpx
