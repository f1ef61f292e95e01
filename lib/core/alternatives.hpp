// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <string>

namespace tpx {

/// "4", "2 or 4", "1, 2 or 4".
inline std::string alternatives(std::span<const int> numbers) {
    std::string text;
    for (std::size_t k = 0; k < numbers.size(); ++k)
        text += fmt::format("{}{}", k == 0 ? "" : k + 1 == numbers.size() ? " or " : ", ", numbers[k]);
    return text;
}

}  // namespace tpx
