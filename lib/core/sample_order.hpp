// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"

#include <cstdint>

namespace tpx {

/// The largest number of samples, and the largest position: JSON readers represent integers exactly up to this value.
inline constexpr Index max_samples = Index{1} << 53;

/// The order in which a job visits the samples of a data set: a permutation for each epoch, selected by the seed. Each
/// position is computed on its own, in constant memory; tpx-data(5) defines the order.
struct SampleOrder {
    Index samples = 0;  ///< positive
    std::uint64_t seed = 0;

    /// The sample at `position`, which counts the samples of all epochs from 0.
    Index sample_at(Index position) const;
};

}  // namespace tpx
