// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/rows.hpp"

#include "formats/files/profile/run_cells.hpp"
#include "formats/files/trace/log_cells.hpp"
#include "lib/cluster/sensitivity.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/nearest.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

namespace tpx::formats {

std::string_view Row::text(std::string_view column) const {
    const std::size_t index = table_.find(column);
    return index == Table::npos ? std::string_view{} : std::string_view{row_.cells[index]};
}

double Row::number(std::string_view column, double least, double most) const {
    double value = 0;
    try {
        value = parse_number(text(column));
    } catch (const Error& error) {
        throw bad(column, "{}", error.what());
    }
    if (value < least || value > most) throw bad(column, "{:g} is not from {:g} to {:g}", value, least, most);
    return value;
}

int Row::whole(std::string_view column, int least, int most) const {
    const double value = number(column, -HUGE_VAL, HUGE_VAL);
    if (value != std::floor(value)) throw bad(column, "{:g} is not a whole number", value);
    if (value < least || value > most) throw bad(column, "{} is not from {} to {}", value, least, most);
    return static_cast<int>(value);
}

Time Row::time(std::string_view column) const {
    const std::string_view cell = text(column);
    const bool has_clock = cell.find(':') != cell.npos, has_unit = cell.find_first_of("dhms") != cell.npos;
    if (cell.empty() || cell[0] < '0' || cell[0] > '9' || (!has_clock && !has_unit))
        return time_of(number(column, 0, max_trace_seconds));
    try {
        return parse_duration(cell);
    } catch (const Error& error) {
        throw bad(column, "{}", error.what());
    }
}

std::optional<Time> Row::date(std::string_view column) const {
    const std::string_view cell = text(column);
    const auto number = finite_number(cell);
    const bool is_date = cell.size() > 4 && (cell[4] == '-' || cell[4] == '/') && cell[0] >= '0' && cell[0] <= '9';
    constexpr double latest = 1e11;  // in 5138
    const bool is_since_1970 = number && *number > max_trace_seconds && *number * unit_of_moment(*number) <= latest;
    if (number ? !is_since_1970 : !is_date) return std::nullopt;
    try {
        return parse_moment(cell);
    } catch (const Error& error) {
        throw bad(column, "{}", error.what());
    }
}

bool Row::truth(std::string_view column) const {
    const auto value = cells::truth(text(column));
    if (!value) throw bad(column, "'{}' is neither true nor false", text(column));
    return *value;
}

void check_columns_of(const Table& table, const std::vector<std::string>& known) {
    for (const std::string& column : table.columns)
        if (std::ranges::count(known, column) == 0)
            throw failure("{}: unknown column '{}'; known columns: {}", table.file, column, fmt::join(known, ", "));
}

void check_misspelled(const Table& table, const std::vector<std::string>& known) {
    for (const std::string& column : table.columns) {
        if (std::ranges::count(known, column) > 0) continue;
        const std::string meant = did_you_mean(column, known);
        if (!meant.empty()) throw failure("{}: unknown column '{}'{}", table.file, column, meant);
    }
}

int find_kind(const Cluster& cluster, std::string_view name) {
    const auto same = [](std::string_view a, std::string_view b) {
        return std::ranges::equal(a, b, [](char x, char y) { return (x | 0x20) == (y | 0x20); });
    };
    for (std::size_t i = 0; i < cluster.kinds.size(); ++i)
        if (same(cluster.kinds[i], name)) return static_cast<int>(i);
    return any;
}

int find_tenant(const Cluster& cluster, std::string_view name) {
    const auto found = std::ranges::find(cluster.tenants, name, &Tenant::name);
    return found == cluster.tenants.end() ? any : static_cast<int>(found - cluster.tenants.begin());
}

std::string plan_of_rubick(std::string_view name) {
    static const std::map<std::string_view, std::string_view> words{
        {"ga", "dp=1"}, {"gc", "recompute=full"}, {"zero-dp", "zero=1"}, {"zero-offload", "zero=2,offload"}};
    if (const auto found = words.find(name); found != words.end()) return std::string{found->second};
    if (name.size() != 3 || name.find_first_not_of("123456789") != name.npos) return {};
    return fmt::format("pp={},tp={},dp={}", name[0], name[1], name[2]);
}

bool set_predicted(TraceJob& job, const TraceContext& context, const std::string& given) {
    const auto found = context.speeds.predicted_.find(job.model);
    if (found == context.speeds.predicted_.end()) return false;
    const Grant packed = packed_grant(job, context.cluster, job.gpus);
    if (packed.parts.empty())
        throw failure("there {} of one kind", job.gpus == 1 ? "is no GPU" : fmt::format("are no {} GPUs", job.gpus));
    const HostShape shape = shape_of(packed);
    const std::string of_rubick = plan_of_rubick(given), plan = of_rubick.empty() ? given : of_rubick;
    ExecutionPlan own;
    if (plan.empty()) {
        const int best = found->second->best(shape);
        if (best == any)
            throw failure("no plan of '{}' fits on {}", job.model, counted(std::uint64_t(job.gpus), "GPU"));
        own = found->second->plan(best);
    } else {
        own = parse_execution_plan(plan);
        if (own.dp == 1) own.dp = std::max(1, job.gpus / own.gpus());
        if (own.gpus() != job.gpus)
            throw failure("'{}' is for {}, not {}", plan, counted(std::uint64_t(own.gpus()), "GPU"), job.gpus);
        const bool is_cut = plan.find("ga=") != plan.npos || plan.find("mb=") != plan.npos;
        const int cut = is_cut ? any : found->second->best_like(own, shape);
        if (cut != any) own = found->second->plan(cut);
    }
    job.speed = std::make_shared<ModelSpeed>(found->second, own);
    return true;
}

// Sets work that takes `duration` with what the job asks for.
void set_work(TraceJob& job, const TraceContext& context, Time duration) {
    const double rate = full_rate(job, context.cluster, context.empty);
    if (!(rate > 0)) throw failure("there is no rate with {}", counted(std::uint64_t(job.gpus), "GPU"));
    job.work = static_cast<double>(duration) * rate;
}

void set_duration(TraceJob& job, const TraceContext& context, Time duration, double exponent) {
    if (set_predicted(job, context, job.plan)) return set_work(job, context, duration);
    job.work = static_cast<double>(duration);
    job.speed = std::make_shared<PowerSpeed>(job.gpus, exponent);
    const JobSpeeds::Entry* entry = context.speeds.find(job.name, job.model);
    if (!entry) return;
    job.speed = entry->speed;
    find_kinds(job, context.cluster);
    if (entry->whole_jobs) {
        job.work = 1e6;
        return;
    }
    set_work(job, context, duration);
}

void set_steps(TraceJob& job, const TraceContext& context, double steps) {
    if (set_predicted(job, context, job.plan)) {
        job.work = steps * 1e6;
        return;
    }
    const JobSpeeds::Entry* entry = context.speeds.find(job.name, job.model);
    if (!entry)
        throw failure("the job has steps, but --speeds has no rates for job '{}' or model '{}'", job.name, job.model);
    job.speed = entry->speed;
    find_kinds(job, context.cluster);
    job.work = entry->whole_jobs ? 1e6 : steps * 1e6;
    if (!(full_rate(job, context.cluster, context.empty) > 0))
        throw failure("there is no rate with {}", counted(std::uint64_t(job.gpus), "GPU"));
}

namespace {

Error no_timestamp(std::string_view text) {
    return failure("'{}' is not a time such as 2017-10-09 07:01:55 or 2023-03-01T00:18:22+08:00", text);
}

// Takes the parts of a time from the front of its text.
class TimestampParts {
public:
    explicit TimestampParts(std::string_view text) : text_{text}, rest_{text} {}

    bool at_end() const { return rest_.empty(); }
    std::string_view rest() const { return rest_; }

    // A number of `least` to `most` digits.
    int number(std::size_t least, std::size_t most) {
        std::size_t length = 0;
        int value = 0;
        for (; length < rest_.size() && length < most && rest_[length] >= '0' && rest_[length] <= '9'; ++length)
            value = value * 10 + (rest_[length] - '0');
        if (length < least) throw no_timestamp(text_);
        rest_.remove_prefix(length);
        return value;
    }

    // Takes the next character if it is one of `any`.
    bool take(std::string_view any) {
        if (rest_.empty() || any.find(rest_[0]) == any.npos) return false;
        rest_.remove_prefix(1);
        return true;
    }

    void expect(std::string_view any) {
        if (!take(any)) throw no_timestamp(text_);
    }

    // Microseconds behind a point.
    Time fraction() {
        Time value = 0, unit = second;
        if (take("."))
            for (; !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; rest_.remove_prefix(1))
                value += (unit /= 10) * (rest_[0] - '0');
        return value;
    }

private:
    std::string_view text_, rest_;
};

// How far the time zone that `parts` end with is ahead of UTC: nothing, Z, UTC, +08:00, +0800 or +08.
Time take_zone(TimestampParts& parts, std::string_view text) {
    std::string_view zone = parts.rest();
    while (zone.starts_with(' ')) zone.remove_prefix(1);
    if (zone.empty() || zone == "Z" || zone == "UTC" || zone == "GMT") return 0;
    if (zone.ends_with(" UTC") || zone.ends_with(" GMT")) zone.remove_suffix(4);  // "+0000 UTC" of Go
    TimestampParts rest{zone};
    const bool behind = rest.take("-");
    if (!behind && !rest.take("+")) throw no_timestamp(text);
    int minutes = rest.number(2, 2) * 60;
    if (rest.take(":") || !rest.at_end()) minutes += rest.number(2, 2);
    if (!rest.at_end()) throw no_timestamp(text);
    return (behind ? -1 : 1) * Time{minutes} * 60 * second;
}

}  // namespace

Time parse_timestamp(std::string_view text) {
    using namespace std::chrono;
    TimestampParts parts{text};
    const int y = parts.number(4, 4);
    const std::string_view separator = parts.rest().substr(0, 1);  // the same behind the month
    parts.expect("-/");
    const std::size_t least = separator == "/" ? 1 : 2;  // digits; spreadsheets write 2026/1/5
    const int m = parts.number(least, 2);
    parts.expect(separator);
    const int d = parts.number(least, 2);
    parts.expect(" T");
    const int hour = parts.number(least, 2);
    parts.expect(":");
    const int minute = parts.number(2, 2);
    const int seconds = parts.take(":") ? parts.number(2, 2) : 0;
    const Time fraction = parts.fraction();
    const Time zone = take_zone(parts, text);
    const year_month_day date{year{y}, month{static_cast<unsigned>(m)}, day{static_cast<unsigned>(d)}};
    if (!date.ok() || hour > 23 || minute > 59 || seconds > 60) throw failure("'{}' is not a time", text);
    const Time days = sys_days{date}.time_since_epoch().count();
    return (((days * 24 + hour) * 60 + minute) * 60 + seconds) * second + fraction - zone;
}

}  // namespace tpx::formats
