// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/reading.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpx {

/// An axis of a stored tensor that is not as long as the configuration or other tensors imply.
struct SizeConflict {
    std::uint32_t tensor = 0;
    int axis = 0;
    Index implied = 0;
};

/// The first such axis of a weight; unset if there is none. `reading` may be incomplete: axes with factors whose size
/// is unknown or varies, and padded axes, are skipped.
std::optional<SizeConflict> find_size_conflict(const Reading& reading, std::span<const Tensor> tensors);

/// The axes of a stored tensor as its rule describes them, without the leading axis of layers. Empty if it is not a
/// weight that one rule describes alone, or has another number of axes.
std::vector<Axis> axes_of_weight(const Reading& reading, const Tensor& tensor, const Meaning& meaning);

}  // namespace tpx
