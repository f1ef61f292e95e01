// SPDX-License-Identifier: Apache-2.0
#include "formats/profile/log_text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace tpx::formats {

std::optional<double> number_after(std::string_view line, std::string_view mark) {
    const std::size_t at = line.find(mark);
    if (at == line.npos) return std::nullopt;
    line.remove_prefix(at + mark.size());
    line.remove_prefix(std::min(line.find_first_not_of(" \t.|'"), line.size()));
    std::string digits;
    for (const char c : line.substr(0, 40)) {
        if (c == ',') continue;
        if ((c < '0' || c > '9') && c != '.') break;
        digits += c;
    }
    double value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return code == std::errc{} && std::isfinite(value) ? std::optional{value} : std::nullopt;
}

std::optional<double> number_before(std::string_view line, std::string_view unit) {
    const std::size_t at = line.find(unit);
    if (at == line.npos) return std::nullopt;
    std::size_t begin = at;
    while (begin > 0 && (line[begin - 1] == '.' || (line[begin - 1] >= '0' && line[begin - 1] <= '9'))) --begin;
    double value = 0;
    const auto [end, code] = std::from_chars(line.data() + begin, line.data() + at, value);
    return code == std::errc{} && value > 0 ? std::optional{value} : std::nullopt;
}

std::string without_colours(std::string_view line) {
    std::string plain;
    for (std::size_t at = 0; at < line.size(); ++at) {
        if (line[at] == '\x1b' && line.substr(at + 1, 1) == "[") {
            at = std::min(line.find('m', at), line.size());
            continue;
        }
        plain += line[at];
    }
    return plain;
}

bool is_training_bar(std::string_view line) {
    if (line.starts_with("[rank")) line.remove_prefix(std::min(line.find(':') + 1, line.size()));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const bool named = !line.empty() && std::isalpha(static_cast<unsigned char>(line.front())) != 0;
    return !named || line.starts_with("Epoch") || line.starts_with("Train");
}

}  // namespace tpx::formats
