// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace tpx {

/// `text` with ASCII letters in lower case.
inline std::string lower_case(std::string_view text) {
    std::string result{text};
    std::ranges::transform(result, result.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c | 0x20) : c; });
    return result;
}

}  // namespace tpx
