// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/reading.hpp"

#include <string>

namespace tpx {

/// Which size of the stored tensors is not a whole number by the configuration: "num_attention_heads = 4 is not a
/// multiple of num_key_value_heads = 3". Empty if there is none. Shapes may give the size of such a factor.
std::string remainder_in_sizes(const Reading& reading);

}  // namespace tpx
