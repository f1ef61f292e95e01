// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"

#include <cstdint>

namespace tpx {

/// The most samples, and the largest position: JSON readers keep such numbers exactly.
inline constexpr Index most_samples = Index{1} << 53;

/// The order in which a job visits the samples of a data set: a permutation for each epoch, which the seed selects. Any
/// place of the order is computed on its own, in constant memory; tpx-data(5) defines it.
struct SampleOrder {
    Index samples = 0;  ///< positive
    std::uint64_t seed = 0;

    /// The sample at `position` of the whole order, which counts on from one epoch to the next.
    Index sample_at(Index position) const;
};

}  // namespace tpx
