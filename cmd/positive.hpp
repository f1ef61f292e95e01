// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tpx::cli {

/// The positive number that `text` is, `otherwise` where it is empty. Throws Error (usage) that names `option`.
int positive(const std::string& text, const char* option, int otherwise);

}  // namespace tpx::cli
