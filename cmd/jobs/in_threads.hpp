// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/in_threads.hpp"

#include <algorithm>
#include <cstddef>
#include <thread>

namespace tpx::cli {

/// Like tpx::in_threads, but uses no more threads than there are cores.
template <class Work>
void in_threads(std::size_t count, std::size_t most, const Work& work) {
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    tpx::in_threads(count, std::min(cores, most), work);
}

}  // namespace tpx::cli
