// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/log_cells.hpp"

#include "formats/files/trace/rows.hpp"
#include "lib/core/lower_case.hpp"
#include "lib/core/take_while.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace tpx::formats {
namespace {

constexpr double latest_moment = 1e11;  // seconds since 1970, or since the log began

// The least number that counts milliseconds, microseconds and nanoseconds since 1970: all of 1979. As seconds, the
// first is 9,500 years later.
constexpr std::array<std::pair<double, double>, 3> fine_units{{{3e11, 1e-3}, {3e14, 1e-6}, {3e17, 1e-9}}};

Error no_duration(std::string_view text) {
    return failure("'{}' is not a duration such as 90, 01:30:00, 1-02:30:00 or 1h30m", text);
}

// A field of `text`, which is not negative.
double field_of(std::string_view field, std::string_view text) {
    if (field.empty() || field.find_first_not_of("0123456789.") != field.npos) throw no_duration(text);
    return parse_number(field);
}

// The seconds of "1:30", "0:01:30" or "2-03:00:00". Without days, hours and then minutes may be missing; with days,
// seconds and then minutes.
double clock_seconds(std::string_view text) {
    std::string_view rest = text;
    double total = 0;
    const std::size_t dash = text.find('-');
    const bool has_days = dash != text.npos;
    if (has_days) {
        total = field_of(text.substr(0, dash), text);
        rest.remove_prefix(dash + 1);
    }
    int fields = 0;
    for (bool more = true; more; ++fields) {
        const std::size_t colon = rest.find(':');
        more = colon != rest.npos;
        total = total * (has_days && fields == 0 ? 24 : 60) + field_of(rest.substr(0, colon), text);
        rest.remove_prefix(more ? colon + 1 : rest.size());
    }
    if (fields > 3) throw no_duration(text);
    for (; has_days && fields < 3; ++fields) total *= 60;
    return total;
}

bool is_letter(char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

// The seconds of "2h30m", "1 day, 2:03:04", "0 days 02:03:04.5" or "P1DT2H".
double worded_seconds(std::string_view given) {
    const std::string lower = lower_case(given);
    std::string_view text = lower;
    const bool is_iso = text.starts_with('p');
    if (is_iso) text.remove_prefix(1);
    double total = 0;
    bool is_time = !is_iso;  // behind the T of ISO 8601; before it, M are months
    while (!text.empty()) {
        take_while(text, [](char c) { return c == ' ' || c == ','; });
        if (is_iso && text.starts_with('t')) {
            is_time = true;
            text.remove_prefix(1);
        }
        if (text.empty()) break;
        const std::string_view rest = text;
        const std::string_view number = take_while(text, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
        if (text.starts_with(':')) return total + clock_seconds(rest);
        take_while(text, [](char c) { return c == ' '; });
        const std::string_view word = take_while(text, [&](char c) { return is_letter(c) && (!is_iso || c != 't'); });
        const double unit = seconds_of_unit(word);
        if (unit == 0 || (!is_time && word == "m")) throw no_duration(given);
        total += field_of(number, given) * unit;
    }
    return total;
}

// Whether words such as "days" are in `text`; the e of "1e3" is none.
bool has_words(std::string_view text) {
    return std::ranges::any_of(text, [](char c) { return is_letter(c) && c != 'e' && c != 'E'; });
}

}  // namespace

bool is_missing_time(std::string_view text) {
    constexpr std::array<std::string_view, 9> words{"", "none", "null", "nan", "unknown", "n/a", "-", "<none>", "nat"};
    return std::ranges::count(words, lower_case(text)) > 0;
}

bool is_resource_list(std::string_view text) { return text.find('=') != text.npos; }

double slurm_amount(std::string_view list, std::string_view resource) {
    double total = 0;
    for (bool typed = true; !list.empty();) {
        const std::string_view item = list.substr(0, list.find(','));
        list.remove_prefix(std::min(item.size() + 1, list.size()));
        const std::size_t equals = std::min(item.find('='), item.size());
        const std::string_view key = item.substr(0, equals), value = item.substr(std::min(equals + 1, item.size()));
        if (key == resource) {
            total = parse_number(value);
            typed = false;  // this is the sum already
        } else if (typed && key.starts_with(resource) && key.substr(resource.size()).starts_with(':')) {
            total += parse_number(value);
        }
    }
    return total;
}

std::string_view slurm_gpu_type(std::string_view list) {
    constexpr std::string_view start = "gres/gpu:";
    const std::size_t at = list.find(start);
    return at == list.npos ? std::string_view{}
                           : list.substr(at + start.size(), list.find('=', at) - at - start.size());
}

double seconds_of_unit(std::string_view word) {
    struct Unit {
        std::string_view names;
        double seconds;
    };
    static constexpr std::array<Unit, 8> units{{{" ns nanosecond nanoseconds ", 1e-9},
                                                {" us microsecond microseconds ", 1e-6},
                                                {" ms millisecond milliseconds ", 1e-3},
                                                {" s sec secs second seconds ", 1},
                                                {" m min mins minute minutes ", 60},
                                                {" h hr hrs hour hours ", 3600},
                                                {" d day days ", 86'400},
                                                {" w week weeks ", 604'800}}};
    const std::string name = fmt::format(" {} ", word);
    const auto* unit =
        std::ranges::find_if(units, [&](const Unit& each) { return each.names.find(name) != each.names.npos; });
    return word.empty() || unit == units.end() ? 0 : unit->seconds;
}

Time parse_duration(std::string_view text, double unit) {
    const bool has_clock = text.find(':') != text.npos || (!text.starts_with('-') && text.find('-') != text.npos &&
                                                           text.find_first_of("eE") == text.npos);
    double total = 0;
    if (const auto number = finite_number(text))
        total = *number * unit;
    else if (has_words(text))
        total = worded_seconds(text);
    else if (has_clock)
        total = clock_seconds(text);
    else
        throw no_duration(text);
    if (total < 0 || total > max_trace_seconds)
        throw failure("{:g} is not from 0 to {:g} seconds", total, max_trace_seconds);
    return time_of(total);
}

double unit_of_moment(double value) {
    for (const auto& [least, unit] : fine_units)
        if (value >= least && value * unit <= latest_moment) return unit;
    return 1;
}

std::optional<Time> parse_moment(std::string_view text, double unit) {
    if (is_missing_time(text)) return std::nullopt;
    const auto number = finite_number(text);
    if (!number) return parse_timestamp(text);
    const bool is_plain = text.find_first_of("eE") == text.npos;
    const double value = *number * (unit == 1 && is_plain ? unit_of_moment(*number) : unit);
    if (value < 0 || value > latest_moment)
        throw failure("{:g} is not a time in seconds from 0 to {:g}", value, latest_moment);
    return time_of(value);
}

}  // namespace tpx::formats
