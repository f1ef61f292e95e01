// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

namespace tpx {

/// Removes from the front of `text` the characters for which `is_part` is true, and returns them.
template <class IsPart>
std::string_view take_while(std::string_view& text, IsPart is_part) {
    const auto end = std::ranges::find_if_not(text, is_part);
    const std::string_view taken{text.begin(), end};
    text.remove_prefix(taken.size());
    return taken;
}

}  // namespace tpx
