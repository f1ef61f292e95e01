// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace tpx {

/// Calls `work` with 0 to `count` - 1, started in this order, from at most `most` threads including this one, or from
/// fewer if the system allows no more. After an exception, starts no more work. When all threads are done, rethrows the
/// exception of the lowest number, so that it is the same in every run.
template <class Work>
void parallel_for(std::size_t count, std::size_t most, const Work& work) {
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    std::exception_ptr error;
    std::size_t failed = count;
    const auto run = [&] {
        for (std::size_t i = next++; i < count; i = next++) {
            try {
                work(i);
            } catch (...) {
                const std::lock_guard lock{mutex};
                if (i < failed) error = std::current_exception();
                failed = std::min(failed, i);
                next = count;
            }
        }
    };
    {
        std::vector<std::jthread> threads;
        try {
            for (std::size_t t = 1; t < std::min(most, count); ++t) threads.emplace_back(run);
        } catch (const std::system_error&) {  // fewer threads do the work
        }
        run();
    }
    if (error) std::rethrow_exception(error);
}

}  // namespace tpx
