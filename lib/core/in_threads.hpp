// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tpx {

/// Calls `work` with 0 up to `count` - 1, each once, from up to `most` threads, this one among them. Rethrows the first
/// exception when all threads are done; work that was not begun by then is left out.
template <class Work>
void in_threads(std::size_t count, std::size_t most, const Work& work) {
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    std::exception_ptr error;
    const auto run = [&] {
        for (std::size_t i = next++; i < count; i = next++) {
            try {
                work(i);
            } catch (...) {
                const std::lock_guard lock{mutex};
                if (!error) error = std::current_exception();
                next = count;
            }
        }
    };
    {
        std::vector<std::jthread> threads;
        for (std::size_t t = 1; t < std::min(most, count); ++t) threads.emplace_back(run);
        run();
    }
    if (error) std::rethrow_exception(error);
}

}  // namespace tpx
