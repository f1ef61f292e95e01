// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/reading.hpp"

#include <vector>

namespace tpx::formats::megatron {

/// The boxes of a stored tensor that one rank of a tensor-parallel group of `tp` has; all its layers and experts
/// count as one. A rank's own tensor is their concatenation along the axis on which they differ. Throws Error (exit 2)
/// when the tensor cannot be cut so.
std::vector<Box> boxes_of_rank(const Reading& reading, const Tensor& tensor, const Meaning& meaning, int tp, int rank);

/// The axis along which a rank's boxes follow each other and the whole is cut; -1 for a replicated tensor.
int cut_axis(const std::vector<Box>& boxes, const Shape& whole);

/// The whole tensor of which `local` is the shape of what each rank has. Throws Error when no rule tells.
Shape whole_shape(const Reading& reading, const std::string& name, const Meaning& meaning, const Shape& local, int tp);

}  // namespace tpx::formats::megatron
