// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/reading.hpp"

#include <vector>

namespace tpx::formats::megatron {

/// The boxes of a stored tensor that one rank of a tensor-parallel group of `tp` ranks has; each box spans all layers
/// and experts. A rank's own tensor is the concatenation of its boxes along the axis on which they differ. Throws Error
/// (exit 2) if the tensor cannot be split this way.
std::vector<Box> boxes_of_rank(const Reading& reading, const Tensor& tensor, const Meaning& meaning, int tp, int rank);

/// The axis along which the whole tensor is split and a rank's boxes follow each other; -1 for a replicated tensor.
int cut_axis(const std::vector<Box>& boxes, const Shape& whole);

/// The shape of the whole tensor if each rank has a part of shape `local`. Throws Error if no rule determines it.
Shape whole_shape(const Reading& reading, const std::string& name, const Meaning& meaning, const Shape& local, int tp);

}  // namespace tpx::formats::megatron
