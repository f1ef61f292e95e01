// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/rate_limiter.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

using namespace tpx;

namespace {

/// Seconds that `threads` threads take to pay for `count` portions each.
double seconds_to_pay(RateLimiter& rate_limiter, int threads, int count, std::uint64_t read, std::uint64_t written) {
    const auto begin = std::chrono::steady_clock::now();
    {
        std::vector<std::jthread> crew;
        for (int k = 0; k < threads; ++k)
            crew.emplace_back([&] {
                for (int n = 0; n < count; ++n) rate_limiter.throttle(read, written, nullptr);
            });
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("threads share a rate, and reading does not slow down writing") {
    RateLimiter rate_limiter{10e6};
    CHECK(seconds_to_pay(rate_limiter, 1, 10, 100'000, 0) >= 0.1);
    CHECK(seconds_to_pay(rate_limiter, 4, 5, 100'000, 50'000) >= 0.2);
    const double both = seconds_to_pay(rate_limiter, 2, 10, 100'000, 100'000);
    CHECK(both >= 0.2);
    CHECK(both < 0.35);
}

TEST_CASE("bytes that were counted too early are allowed later") {
    RateLimiter rate_limiter{1e6};
    CHECK(rate_limiter.may_read());
    rate_limiter.count_read(50'000);
    CHECK_FALSE(rate_limiter.may_read());
    CHECK(rate_limiter.may_write());
    std::this_thread::sleep_for(std::chrono::milliseconds{60});
    CHECK(rate_limiter.may_read());
}

TEST_CASE("a stop request ends the wait") {
    RateLimiter rate_limiter{1e3};
    const std::atomic<int> cancelled{15};
    const auto begin = std::chrono::steady_clock::now();
    rate_limiter.throttle(1'000'000, 0, &cancelled);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds{1});
}
