// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/rows.hpp"

#include "formats/files/profile/run_cells.hpp"
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

Time Row::time(std::string_view column) const { return time_of(number(column, 0, max_trace_seconds)); }

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

int digits(std::string_view text, std::size_t at, std::size_t length) {
    int value = 0;
    const std::string_view part = text.substr(std::min(at, text.size()), length);
    if (part.size() != length) throw no_timestamp(text);
    for (const char digit : part) {
        if (digit < '0' || digit > '9') throw no_timestamp(text);
        value = value * 10 + (digit - '0');
    }
    return value;
}

// How far the time zone at the end of `text`, from `at` on, is ahead of UTC: nothing, Z, +08:00, +0800 or +08.
Time zone_of(std::string_view text, std::size_t at) {
    const std::string_view zone = text.substr(at);
    if (zone.empty() || zone == "Z" || zone == " UTC" || zone == " GMT") return 0;
    if (zone[0] != '+' && zone[0] != '-') throw no_timestamp(text);
    const bool colon = zone.size() == 6 && zone[3] == ':';
    if (zone.size() != 3 && zone.size() != 5 && !colon) throw no_timestamp(text);
    const int minutes = digits(text, at + 1, 2) * 60 + (zone.size() == 3 ? 0 : digits(text, at + (colon ? 4 : 3), 2));
    return (zone[0] == '-' ? -1 : 1) * Time{minutes} * 60 * second;
}

}  // namespace

Time parse_timestamp(std::string_view text) {
    const bool shaped = text.size() >= 16 && text[4] == '-' && text[7] == '-' && (text[10] == ' ' || text[10] == 'T') &&
                        text[13] == ':';
    if (!shaped) throw no_timestamp(text);
    const bool has_seconds = text.substr(16, 1) == ":";
    const auto part = [&](std::size_t at, std::size_t length) { return digits(text, at, length); };
    using namespace std::chrono;
    const year_month_day date{year{part(0, 4)}, month{static_cast<unsigned>(part(5, 2))},
                              day{static_cast<unsigned>(part(8, 2))}};
    const int seconds = has_seconds ? part(17, 2) : 0;
    if (!date.ok() || part(11, 2) > 23 || part(14, 2) > 59 || seconds > 60) throw failure("'{}' is not a time", text);
    const Time days = sys_days{date}.time_since_epoch().count();
    const Time whole = (((days * 24 + part(11, 2)) * 60 + part(14, 2)) * 60 + seconds) * second;
    std::size_t at = has_seconds ? 19 : 16;
    Time fraction = 0, unit = second;
    if (text.substr(at).starts_with('.'))
        for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
            fraction += (unit /= 10) * (text[at] - '0');
    return whole + fraction - zone_of(text, at);
}

}  // namespace tpx::formats
