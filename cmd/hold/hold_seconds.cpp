// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/hold_seconds.hpp"

#include "lib/core/error.hpp"

#include <charconv>
#include <limits>

namespace tpx::cli {

std::optional<int> hold_seconds(const std::string& text, const char* option) {
    if (text == "none") return std::nullopt;
    int seconds = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (code != std::errc{} || end != text.data() + text.size() || seconds < 1)
        throw usage_error("{}: '{}' is not a whole number of seconds from 1 to {}, or none", option, text,
                          std::numeric_limits<int>::max());
    return seconds;
}

}  // namespace tpx::cli
