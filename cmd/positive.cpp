// SPDX-License-Identifier: Apache-2.0
#include "cmd/positive.hpp"

#include "lib/core/error.hpp"

#include <charconv>

namespace tpx::cli {

int positive(const std::string& text, const char* option, int otherwise) {
    if (text.empty()) return otherwise;
    int number = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc{} || stop != text.data() + text.size() || number < 1)
        throw Error{Exit::usage, "{}: '{}' is not a positive whole number", option, text};
    return number;
}

}  // namespace tpx::cli
