// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/parts.hpp"

#include <vector>

namespace tpx {

/// Throws Error "tensor 'NAME': ..." unless the tensor has the shape of `axes`; padded axes may be longer.
void check_shape(const Tensor& tensor, const std::vector<FactoredAxis>& axes);

/// All factors of some axes, in their order.
std::vector<char> letters_of(const std::vector<Axis>& axes);

/// The size of a factor. Throws Error if it is unknown.
Index factor_size(const Dims& dims, char letter);

/// The factor whose size is the number of times that each element of a part is stored; 0: once.
char repeat_of(const Expression& expression, std::size_t part);

}  // namespace tpx
