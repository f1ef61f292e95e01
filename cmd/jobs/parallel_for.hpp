// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/parallel_for.hpp"

#include <algorithm>
#include <cstddef>
#include <thread>

namespace tpx::cli {

/// Like tpx::parallel_for, but uses no more threads than there are cores.
template <class Work>
void parallel_for(std::size_t count, std::size_t most, const Work& work) {
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    tpx::parallel_for(count, std::min(cores, most), work);
}

}  // namespace tpx::cli
