// SPDX-License-Identifier: Apache-2.0
#include "cmd/simulate/simulate.hpp"
#include "lib/cluster/gpu_pool.hpp"
#include "lib/cluster/speed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tpx::cli {
namespace {

struct TraceTarget {
    const Cluster& cluster;
    const GpuPool& empty;  // without running jobs
};

// A field of CSV (RFC 4180). Quotes also keep blanks at the ends, and a # at the start of a line, which begins a
// comment.
std::string quoted_field(const std::string& text) {
    const bool is_plain = text.find_first_of(",;|\t\"\n\r#") == text.npos;
    if (is_plain && (text.empty() || (text.front() != ' ' && text.back() != ' '))) return text;
    std::string quoted = "\"";
    for (const char sign : text) quoted += sign == '"' ? std::string("\"\"") : std::string(1, sign);
    return quoted + '"';
}

// Whether the limits follow from the rates of the job. These are omitted, because the reader derives them again.
bool has_usual_limits(const TraceJob& job, const Cluster& cluster) {
    if (job.own_limits) return false;
    if (job.speed->accepts_any_gpu_count()) return job.least == job.gpus && job.most == job.gpus;
    return job.least == 1 && job.most == std::max(job.gpus, cluster.gpus());
}

const PowerSpeed* power_speed(const TraceJob& job) { return dynamic_cast<const PowerSpeed*>(job.speed.get()); }

std::string number_unless(double value, double usual) {
    return value == usual ? std::string{} : fmt::format("{}", value);
}

struct TraceColumn {
    std::string_view name;
    std::string (*cell)(const TraceJob& job, const TraceTarget& target);
    bool always = false;  // written even if all cells are empty
};

// In the order of tpx-trace(5).
constexpr std::array<TraceColumn, 18> trace_columns{{
    {"name", [](const TraceJob& job, const TraceTarget&) { return quoted_field(job.name); }, true},
    {"arrival", [](const TraceJob& job, const TraceTarget&) { return fmt::format("{:.6f}", seconds_of(job.arrival)); },
     true},
    {"gpus", [](const TraceJob& job, const TraceTarget&) { return fmt::format("{}", job.gpus); }, true},
    {"duration",
     [](const TraceJob& job, const TraceTarget& target) {
         return fmt::format("{:.6f}", job.work / full_rate(job, target.cluster, target.empty) / 1e6);
     },
     true},
    {"steps", [](const TraceJob& job,
                 const TraceTarget&) { return power_speed(job) ? std::string{} : fmt::format("{}", job.work / 1e6); }},
    {"scaling",
     [](const TraceJob& job, const TraceTarget&) {
         const PowerSpeed* speed = power_speed(job);
         return speed ? number_unless(speed->exponent(), 1) : std::string{};
     }},
    {"min_gpus",
     [](const TraceJob& job, const TraceTarget& target) {
         return has_usual_limits(job, target.cluster) ? std::string{} : fmt::format("{}", job.least);
     }},
    {"max_gpus",
     [](const TraceJob& job, const TraceTarget& target) {
         return has_usual_limits(job, target.cluster) ? std::string{} : fmt::format("{}", job.most);
     }},
    {"kind",
     [](const TraceJob& job, const TraceTarget& target) {
         return job.kind == any ? std::string{} : quoted_field(target.cluster.kinds[job.kind]);
     }},
    {"priority", [](const TraceJob& job, const TraceTarget&) { return fmt::format("{}", job.priority); }, true},
    {"tenant",
     [](const TraceJob& job, const TraceTarget& target) {
         return job.tenant == any ? std::string{} : quoted_field(target.cluster.tenants[job.tenant].name);
     }},
    {"guaranteed", [](const TraceJob& job, const TraceTarget&) { return std::string{job.guaranteed ? "1" : "0"}; },
     true},
    {"cpus", [](const TraceJob& job, const TraceTarget&) { return number_unless(job.cpus, 0); }},
    {"memory", [](const TraceJob& job,
                  const TraceTarget&) { return job.memory == 0 ? std::string{} : fmt::format("{:.0f}", job.memory); }},
    {"cpu_scaling", [](const TraceJob& job, const TraceTarget&) { return number_unless(job.cpu_scaling, 0); }},
    {"deadline",
     [](const TraceJob& job, const TraceTarget&) {
         return job.deadline ? fmt::format("{:.6f}", seconds_of(*job.deadline)) : std::string{};
     }},
    {"model", [](const TraceJob& job, const TraceTarget&) { return quoted_field(job.model); }, true},
    {"plan", [](const TraceJob& job, const TraceTarget&) { return quoted_field(job.plan); }},
}};

}  // namespace

std::string trace_csv(const std::vector<TraceJob>& jobs, const Cluster& cluster) {
    const GpuPool empty{cluster};
    const TraceTarget target{cluster, empty};
    std::vector<TraceColumn> columns{trace_columns.begin(), trace_columns.end()};
    std::erase_if(columns, [&](const TraceColumn& column) {
        return !column.always &&
               std::ranges::all_of(jobs, [&](const TraceJob& job) { return column.cell(job, target).empty(); });
    });
    std::string text;
    for (const TraceColumn& column : columns) text.append(text.empty() ? "" : ",").append(column.name);
    text += '\n';
    for (const TraceJob& job : jobs) {
        for (const TraceColumn& column : columns)
            text.append(column.name == "name" ? "" : ",").append(column.cell(job, target));
        text += '\n';
    }
    return text;
}

}  // namespace tpx::cli
