// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/placement.hpp"

#include "lib/core/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace tpx::formats {

namespace {

// "8+8+4" for "[8, 8, 4]" and "8 + 8 + 4", and "4x8" for "4 x 8", as tables have them.
std::string without_list_marks(std::string_view given) {
    if (given.size() > 2 && given.starts_with('[') && given.ends_with(']')) given = given.substr(1, given.size() - 2);
    std::string text;
    bool has_blank = false;
    for (const char c : given) {
        const bool is_separator = c == '+' || c == ',' || c == 'x';
        const bool is_between_numbers =
            has_blank && !is_separator && !text.empty() && text.back() != '+' && text.back() != 'x';
        if (is_between_numbers) text += ' ';  // which is an error
        has_blank = c == ' ';
        if (!has_blank) text += c == ',' ? '+' : c;
    }
    return text;
}

}  // namespace

std::vector<int> parse_placement(std::string_view given) {
    const std::string text = without_list_marks(given);
    const auto number = [&](std::string_view digits, int most) {
        int value = 0;
        const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (code != std::errc{} || end != digits.data() + digits.size() || value < 1 || value > most)
            throw Error{Exit::usage, "invalid placement '{}'; use GPUs per host such as 8, 8+8+4 or 4x8", given};
        return value;
    };
    const std::string_view view = text;
    if (const std::size_t cross = text.find('x'); cross != text.npos)
        return std::vector<int>(number(view.substr(0, cross), 1 << 14), number(view.substr(cross + 1), 1 << 10));
    std::vector<int> gpus;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find('+', at), text.size());
        gpus.push_back(number(view.substr(at, end - at), 1 << 14));
        at = end + 1;
    }
    return gpus;
}

std::string placement_text(const std::vector<int>& gpus) {
    const bool same = std::ranges::all_of(gpus, [&](int each) { return each == gpus.front(); });
    if (gpus.size() > 1 && same) return fmt::format("{}x{}", gpus.size(), gpus.front());
    return fmt::format("{}", fmt::join(gpus, "+"));
}

}  // namespace tpx::formats
