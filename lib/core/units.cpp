// SPDX-License-Identifier: Apache-2.0
#include "lib/core/units.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace tpx {
namespace {

constexpr std::string_view prefixes = "KMGTPE";

struct Quantity {
    std::string_view digits;
    double number = 0;
    std::string_view unit;  // what follows the number and the blanks after it
};

std::optional<Quantity> split(std::string_view text) {
    Quantity quantity;
    const auto [end, code] =
        std::from_chars(text.data(), text.data() + text.size(), quantity.number, std::chars_format::fixed);
    if (code != std::errc{} || !std::isfinite(quantity.number) || std::signbit(quantity.number)) return std::nullopt;
    const auto length = static_cast<std::size_t>(end - text.data());
    quantity.digits = text.substr(0, length);
    quantity.unit = text.substr(length);
    quantity.unit.remove_prefix(std::min(quantity.unit.find_first_not_of(' '), quantity.unit.size()));
    return quantity;
}

// Removes a prefix ("K", "Ki", "m", ...) from `unit` and returns its factor; `bare` is the base of a prefix without i
// that nothing follows.
double take_prefix(std::string_view& unit, int bare) {
    const auto power =
        unit.empty() ? std::string_view::npos : prefixes.find(static_cast<char>(std::toupper(unit.front())));
    if (power == std::string_view::npos) return 1;
    unit.remove_prefix(1);
    const bool binary = unit.starts_with('i') || unit.starts_with('I');
    if (binary) unit.remove_prefix(1);
    const int base = binary ? 1024 : unit.empty() ? bare : 1000;
    return std::pow(base, static_cast<double>(power + 1));
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text) {
    const auto mistake = [&] { return Error{Exit::usage, "'{}' is not a size such as 4096, 64MiB or 1.5GB", text}; };
    const std::optional<Quantity> quantity = split(text);
    if (!quantity) throw mistake();
    std::string_view unit = quantity->unit;
    const double scale = take_prefix(unit, 1024);
    if (!unit.empty() && unit != "B" && unit != "b") throw mistake();
    const Error too_large{Exit::usage, "'{}' is more than 2^63-1 bytes", text};

    std::uint64_t whole = 0;
    const char* const end = quantity->digits.data() + quantity->digits.size();
    const auto [stop, code] = std::from_chars(quantity->digits.data(), end, whole);
    if (code == std::errc{} && stop == end) {
        if (__builtin_mul_overflow(whole, static_cast<std::uint64_t>(scale), &whole)) throw too_large;
    } else {
        const double bytes = std::round(quantity->number * scale);
        if (bytes >= 0x1p63) throw too_large;
        whole = static_cast<std::uint64_t>(bytes);
    }
    if (whole > std::numeric_limits<std::int64_t>::max()) throw too_large;
    return whole;
}

double parse_rate(std::string_view text) {
    const auto mistake = [&] { return Error{Exit::usage, "'{}' is not a rate such as 25GB/s or 200Gbit/s", text}; };
    const std::optional<Quantity> quantity = split(text);
    if (!quantity) throw mistake();
    std::string_view unit = quantity->unit;
    const bool unit_is_missing = unit.empty();
    double scale = 1;
    if (!unit_is_missing) {
        scale = take_prefix(unit, 1000);
        if (unit == "bit/s" || unit == "b/s" || unit == "bps") {
            scale /= 8;
        } else if (unit != "B/s") {
            throw mistake();
        }
    }
    const double rate = quantity->number * scale;
    if (unit_is_missing && rate < 1e3) throw mistake();  // the user more likely means 25 GB/s than 25 bytes per second
    if (!(rate > 0) || !std::isfinite(rate)) throw mistake();
    return rate;
}

std::string format_bytes(double bytes) {
    if (bytes < 999.5) return fmt::format("{:.0f} B", bytes);
    std::size_t power = 0;
    for (bytes /= 1000; bytes >= 999.5 && power + 1 < prefixes.size(); bytes /= 1000) ++power;
    const int decimals = bytes < 9.995 ? 2 : bytes < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}B", bytes, decimals, power == 0 ? 'k' : prefixes[power]);
}

std::string format_size(std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

std::string format_rate(double bytes_per_second) { return format_bytes(bytes_per_second) + "/s"; }

std::string format_seconds(double seconds) {
    if (seconds <= 0) return "0 s";
    const auto digits = [](double value) { return value < 9.995 ? 2 : value < 99.95 ? 1 : 0; };
    if (seconds < 0.9995e-3) return fmt::format("{:.{}f} us", seconds * 1e6, digits(seconds * 1e6));
    if (seconds < 0.9995) return fmt::format("{:.{}f} ms", seconds * 1e3, digits(seconds * 1e3));
    if (seconds < 119.5) return fmt::format("{:.{}f} s", seconds, digits(seconds));
    const double rounded = std::round(seconds);
    if (rounded < 7200) return fmt::format("{:.0f} min {:02.0f} s", std::floor(rounded / 60), std::fmod(rounded, 60));
    const double minutes = std::round(seconds / 60);
    return fmt::format("{:.0f} h {:02.0f} min", std::floor(minutes / 60), std::fmod(minutes, 60));
}

}  // namespace tpx
