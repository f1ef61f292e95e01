// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/log_text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace tpx::formats {
namespace {

// A comma between thousands: three digits follow it, and no fourth.
bool separates_thousands(std::string_view behind) {
    return behind.size() >= 3 && std::ranges::all_of(behind.substr(0, 3), is_digit) &&
           (behind.size() == 3 || !is_digit(behind[3]));
}

// What precedes the times of a bar: " 72%|███▏  | 28/39".
std::string_view counts_of_bar(std::string_view line) {
    const std::size_t times = line.find(" [");
    return line.substr(0, times == line.npos ? 0 : times);
}

}  // namespace

std::optional<double> number_after(std::string_view line, std::string_view mark) {
    constexpr std::size_t longest = 40;
    const std::size_t at = line.find(mark);
    if (at == line.npos) return std::nullopt;
    line.remove_prefix(at + mark.size());
    line.remove_prefix(std::min(line.find_first_not_of(" \t.|'"), line.size()));
    line = line.substr(0, longest);
    std::string digits;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const bool is_part = is_digit(line[i]) || (!digits.empty() && line.substr(i, 1).find_first_of(".eE+-") == 0);
        if (line[i] == ',' && separates_thousands(line.substr(i + 1))) continue;
        if (!is_part) break;
        digits += line[i];
    }
    double value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return code == std::errc{} && std::isfinite(value) ? std::optional{value} : std::nullopt;
}

std::optional<double> number_before(std::string_view line, std::string_view unit) {
    const std::size_t at = line.find(unit);
    if (at == line.npos) return std::nullopt;
    std::size_t begin = at;
    while (begin > 0 && (line[begin - 1] == '.' || is_digit(line[begin - 1]))) --begin;
    double value = 0;
    const auto [end, code] = std::from_chars(line.data() + begin, line.data() + at, value);
    return code == std::errc{} && value > 0 ? std::optional{value} : std::nullopt;
}

std::string without_escapes(std::string_view line) {
    std::string plain;
    plain.reserve(line.size());
    for (std::size_t at = 0; at < line.size(); ++at) {
        if (line[at] != '\x1b') {
            plain += line[at];
            continue;
        }
        if (line.substr(at + 1, 1) != "[") continue;
        // The sequence ends with a letter or another character from @ to ~.
        for (at += 2; at < line.size() && (line[at] < '@' || line[at] > '~'); ++at) {
        }
    }
    return plain;
}

bool is_training_bar(std::string_view line) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const bool named = !line.empty() && std::isalpha(static_cast<unsigned char>(line.front())) != 0;
    return !named || line.starts_with("Epoch") || line.starts_with("Train") || line.starts_with("Steps:");
}

std::optional<double> total_of_bar(std::string_view line) {
    const std::string_view counts = counts_of_bar(line);
    const std::size_t slash = counts.rfind('/');
    return slash == counts.npos ? std::nullopt : number_after(counts.substr(slash), "/");
}

std::optional<double> step_of_bar(std::string_view line) {
    const std::string_view counts = counts_of_bar(line);
    const auto all = total_of_bar(line);
    const auto step = all ? number_before(counts, counts.substr(counts.rfind('/'))) : std::nullopt;
    if (!step) return std::nullopt;
    return *step + *all * (line.starts_with("Epoch ") ? number_after(line, "Epoch ").value_or(0) : 0);
}

std::optional<double> seconds_of_bar(std::string_view line) {
    if (!is_training_bar(line)) return std::nullopt;
    if (const auto seconds = number_before(line, "s/it")) return seconds;
    if (const auto rate = number_before(line, "it/s")) return 1 / *rate;
    return std::nullopt;
}

}  // namespace tpx::formats
