// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"
#include "lib/exec/copy_elements.hpp"

#include <algorithm>
#include <random>
#include <vector>

namespace tpx {

using Random = std::mt19937_64;

/// A random number from 0 to `below` - 1.
inline Index pick(Random& random, Index below) { return Index(random() % std::uint64_t(below)); }

/// Random strides in bytes of an array: its axes are in random order in memory, some with gaps. Sets `bytes` to its
/// extent.
inline Strides random_strides(Random& random, const Shape& sizes, int itemsize, Index& bytes) {
    std::vector<int> order(std::size_t(sizes.size()));
    for (int k = 0; k < sizes.size(); ++k) order[std::size_t(k)] = k;
    if (random() % 2) std::shuffle(order.begin(), order.end(), random);
    Strides strides(sizes.size());
    bytes = itemsize;
    for (auto k = order.rbegin(); k != order.rend(); ++k) {
        if (random() % 3 == 0) bytes += pick(random, 5) * itemsize;
        strides[*k] = bytes;
        bytes *= sizes[*k];
    }
    return strides;
}

}  // namespace tpx
