// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/positive.hpp"

#include "lib/core/error.hpp"

#include <charconv>

namespace tpx::cli {

int positive(const std::string& text, const char* option, int otherwise, int most) {
    if (text.empty()) return otherwise;
    int number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, number);
    const bool is_large = code == std::errc::result_out_of_range && stop == end && text.front() != '-';
    if (is_large || (code == std::errc{} && stop == end && number > most))
        throw usage_error("{}: '{}' is too large (at most {})", option, text, most);
    if (code != std::errc{} || stop != end || number < 1)
        throw usage_error("{}: '{}' is not a positive whole number", option, text);
    return number;
}

}  // namespace tpx::cli
