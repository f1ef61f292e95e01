// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/run_cells.hpp"

#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace tpx::formats::cells {

bool is_true(std::string_view text) {
    constexpr std::array<std::string_view, 7> words{"1", "true", "True", "TRUE", "yes", "Yes", "on"};
    return std::ranges::count(words, text) > 0;
}

bool is_false(std::string_view text) {
    constexpr std::array<std::string_view, 7> words{"0", "false", "False", "FALSE", "no", "No", "off"};
    return std::ranges::count(words, text) > 0;
}

double positive(std::string_view text) {
    const double value = parse_number(text);
    if (value <= 0) throw failure("{} is not positive", text);
    return value;
}

bool is_no_time(std::string text) {
    constexpr std::array<std::string_view, 28> words{"",
                                                     "-",
                                                     "/",
                                                     "n/a",
                                                     "na",
                                                     "nan",
                                                     "none",
                                                     "null",
                                                     "x",
                                                     "?",
                                                     "fail",
                                                     "failed",
                                                     "error",
                                                     "timeout",
                                                     "killed",
                                                     "crash",
                                                     "crashed",
                                                     "dnf",
                                                     "skipped",
                                                     "did not run",
                                                     "oom",
                                                     "cuda oom",
                                                     "out of memory",
                                                     "outofmemory",
                                                     "outofmemoryerror",
                                                     "cuda out of memory",
                                                     "inf",
                                                     "infinity"};
    double value = 1;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = code == std::errc{} && end == text.data() + text.size();
    if (is_number && std::isfinite(value)) return value == 0;
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (text.starts_with("oom ") || text.starts_with("oom(")) return true;  // "OOM (80GB)"
    return std::ranges::count(words, text) > 0;
}

bool is_missing(std::string text) {
    constexpr std::array<std::string_view, 8> words{"", "-", "n/a", "na", "nan", "none", "null", "?"};
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return std::ranges::count(words, text) > 0;
}

double seconds_in(std::string_view unit, double time) {
    if (unit.empty() || unit == "s") return time;
    if (unit == "ms") return time / 1e3;
    throw failure("unknown unit '{}'; use s or ms", unit);
}

double seconds_at(std::string_view unit, double rate, double batch, double sequence) {
    if (unit.empty() || unit == "samples/s") return batch / rate;
    if (unit == "steps/s") return 1 / rate;
    if (unit != "tokens/s") throw failure("unknown unit '{}'; use samples/s, steps/s or tokens/s", unit);
    if (sequence <= 0) throw failure("tokens per second need the model's sequence length (sequence)");
    return batch * sequence / rate;
}

std::string recompute_word(const std::string& cell) {
    if (is_true(cell)) return "full";
    return is_false(cell) ? "none" : cell;
}

int gpu_count(std::string_view text) {
    constexpr int most_gpus = 1 << 17;
    const double count = positive(text);
    if (count != std::floor(count) || count > most_gpus) throw failure("'{}' is not a number of GPUs", text);
    return static_cast<int>(count);
}

double gpu_bytes(std::string text, const std::string& unit) {
    if (!text.empty() && std::isdigit(static_cast<unsigned char>(text.back())) != 0) text += unit;
    const auto bytes = static_cast<double>(parse_bytes(text));
    if (bytes < 1e6 || bytes > 1e13) throw failure("{:g} bytes of GPU memory cannot be right; check the unit", bytes);
    return bytes;
}

}  // namespace tpx::formats::cells
