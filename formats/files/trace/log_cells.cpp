// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/log_cells.hpp"

#include "formats/files/trace/rows.hpp"
#include "lib/core/lower_case.hpp"

#include <algorithm>
#include <array>

namespace tpx::formats {
namespace {

constexpr double latest_moment = 1e11;       // seconds since 1970, or since the log began
constexpr double first_milliseconds = 3e11;  // of 1979; as seconds, 9,500 years later

Error no_duration(std::string_view text) {
    return failure("'{}' is not a duration such as 90, 01:30:00 or 1-02:30:00", text);
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

}  // namespace

bool is_missing_time(std::string_view text) {
    constexpr std::array<std::string_view, 6> words{"", "none", "null", "nan", "unknown", "n/a"};
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

Time parse_duration(std::string_view text, double unit) {
    const bool has_days =
        !text.starts_with('-') && text.find('-') != text.npos && text.find_first_of("eE") == text.npos;
    const double total = has_days || text.find(':') != text.npos ? clock_seconds(text) : parse_number(text) * unit;
    if (total < 0 || total > max_trace_seconds)
        throw failure("{:g} is not from 0 to {:g} seconds", total, max_trace_seconds);
    return time_of(total);
}

std::optional<Time> parse_moment(std::string_view text, double unit) {
    if (is_missing_time(text)) return std::nullopt;
    if (text.find('-', 1) != text.npos && text.find_first_of("eE") == text.npos) return parse_timestamp(text);
    double value = parse_number(text) * unit;
    if (unit == 1 && value >= first_milliseconds && value <= latest_moment * 1e3) value /= 1e3;
    if (value < 0 || value > latest_moment)
        throw failure("{:g} is not a time in seconds from 0 to {:g}", value, latest_moment);
    return time_of(value);
}

}  // namespace tpx::formats
