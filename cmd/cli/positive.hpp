// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>

namespace tpx::cli {

/// The number in `text`, or `otherwise` if `text` is empty. Throws Error (usage) that names `option` unless the number
/// is an integer from 1 to `most`.
int positive(const std::string& text, const char* option, int otherwise, int most = std::numeric_limits<int>::max());

}  // namespace tpx::cli
