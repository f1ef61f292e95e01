// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// Up to three of `candidates` that resemble `word`, nearest first.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "; did you mean 'a' or 'b'?" for the nearest candidates, or an empty text.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// "a", "a or b", "a, b or c".
std::string one_of(const std::vector<std::string>& words);

}  // namespace tpx
