// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/log_cells.hpp"
#include "formats/files/trace/rows.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/units.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace tpx::formats {
namespace {

constexpr int most_job_gpus = 1 << 20;

// Where a kind of trace keeps what all of them have; empty: it has no such column.
struct Columns {
    std::string_view arrival, gpus, model, plan, priority;
};

// `name` is what the job is called where the trace says nothing.
TraceJob job_of(const Row& row, const Columns& columns, std::string name) {
    TraceJob job;
    job.name = row.has("name") ? std::string{row.text("name")} : std::move(name);
    job.model = row.text(columns.model);
    job.plan = row.text(columns.plan);
    if (!columns.arrival.empty()) {
        const auto date = row.date(columns.arrival);
        job.is_dated = date.has_value();
        job.arrival = date ? *date : row.time(columns.arrival);
    }
    job.gpus = job.least = job.most = row.whole(columns.gpus, 1, most_job_gpus);
    if (row.has(columns.priority)) job.priority = row.number(columns.priority, 1e-6, 1e6);
    return job;
}

double memory_of(const Row& row) {
    try {
        return static_cast<double>(parse_bytes(row.text("memory")));
    } catch (const Error& error) {
        throw row.bad("memory", "{}", error.what());
    }
}

void add_tpx_wishes(TraceJob& job, const Row& row, const TraceContext& context) {
    if (row.has("guaranteed")) job.guaranteed = row.truth("guaranteed");
    if (row.has("cpus")) job.cpus = row.number("cpus", 0, 1 << 20);
    if (row.has("cpu_scaling")) job.cpu_scaling = row.number("cpu_scaling", 0, 2);
    if (row.has("memory")) job.memory = memory_of(row);
    if (row.has("deadline")) job.deadline = row.time("deadline");
    if (row.has("kind")) {
        job.kind = find_kind(context.cluster, row.text("kind"));
        if (job.kind == any) throw row.bad("kind", "the cluster has no GPUs of kind '{}'", row.text("kind"));
    }
    if (row.has("tenant") && !context.cluster.tenants.empty()) {
        job.tenant = find_tenant(context.cluster, row.text("tenant"));
        if (job.tenant == any) throw row.bad("tenant", "the cluster has no tenant '{}'", row.text("tenant"));
    }
}

// A job whose rates with other numbers of GPUs are known may have any number; any other has what it asks for.
void set_usual_limits(TraceJob& job, const TraceContext& context) {
    if (job.speed->accepts_any_gpu_count()) return;
    job.least = 1;
    job.most = std::max(job.gpus, context.cluster.gpus());
}

void add_limits(TraceJob& job, const Row& row, const TraceContext& context) {
    set_usual_limits(job, context);
    job.own_limits = row.has("min_gpus") || row.has("max_gpus");
    if (row.has("min_gpus")) job.least = row.whole("min_gpus", 1, job.gpus);
    if (row.has("max_gpus")) job.most = row.whole("max_gpus", job.gpus, most_job_gpus);
}

// Lets the job run at the measured step times of its model's plans. `duration` is that of its own plan, if known.
void set_measured(TraceJob& job, const TraceContext& context, double steps, std::optional<Time> duration) {
    const std::shared_ptr<PlanTable>& table = context.speeds.plans_.at(job.model);
    const double own_rate = duration && *duration > 0 ? steps / seconds_of(*duration) : 0;
    job.work = steps * 1e6;
    job.speed = std::make_shared<PlanSpeed>(table, table->find(job.plan), job.gpus, own_rate);
}

// Whether the step rate of the job is known from its name or its model.
bool has_step_rate(const TraceJob& job, const TraceContext& context) {
    const JobSpeeds& speeds = context.speeds;
    return speeds.predicted_.contains(job.model) || speeds.plans_.contains(job.model) ||
           speeds.find(job.name, job.model);
}

void set_tpx_work(TraceJob& job, const Row& row, const TraceContext& context) {
    const bool has_duration = row.has("duration");
    if (!row.has("steps") || (has_duration && !has_step_rate(job, context))) {
        const double exponent = row.has("scaling") ? row.number("scaling", 0, 2) : 1;
        return set_duration(job, context, row.time("duration"), exponent);
    }
    const double steps = row.number("steps", 0, 1e15);
    const bool is_predicted = context.speeds.predicted_.contains(job.model);
    if (is_predicted || !context.speeds.plans_.contains(job.model)) return set_steps(job, context, steps);
    set_measured(job, context, steps, has_duration ? std::optional{row.time("duration")} : std::nullopt);
    if (!(full_rate(job, context.cluster, context.empty) > 0))
        throw row.bad("plan", "the step time of '{}' on {} is unknown; add a column 'duration' with the job's run time",
                      job.plan, counted(std::uint64_t(job.gpus), "GPU"));
}

}  // namespace

TraceJob tpx_job(const Row& row, const TraceContext& context) {
    static constexpr Columns columns{"arrival", "gpus", "model", "plan", "priority"};
    TraceJob job = job_of(row, columns, fmt::format("job-{}", row.line()));
    add_tpx_wishes(job, row, context);
    set_tpx_work(job, row, context);
    add_limits(job, row, context);
    return job;
}

TraceJob rubick_job(const Row& row, const TraceContext& context) {
    static constexpr Columns columns{"submission_time", "num_gpus", "application", "exec_plan", ""};
    TraceJob job = job_of(row, columns, fmt::format("job-{}", row.line()));
    job.cpus = row.number("num_cpus", 0, 1e6) / job.gpus;
    job.guaranteed = !row.has("is_sla") || row.truth("is_sla");
    const Time duration = row.time("duration");
    if (context.speeds.predicted_.contains(job.model)) {
        if (plan_of_rubick(job.plan).empty())
            throw row.bad("exec_plan", "'{}' is neither ga, gc, zero-dp, zero-offload nor three digits", job.plan);
        set_predicted(job, context, job.plan);
        set_usual_limits(job, context);
        job.work = row.number("steps", 0, 1e15) * 1e6;
        return job;
    }
    if (!context.speeds.plans_.contains(job.model)) {
        if (!context.speeds.plans_.empty() || !context.speeds.predicted_.empty())
            throw row.bad("application", "--speeds has no plans of '{}'", job.model);
        set_duration(job, context, duration, 1);
        return job;
    }
    set_measured(job, context, row.number("steps", 0, 1e15), duration);
    if (!(full_rate(job, context.cluster, context.empty) > 0)) throw row.bad("exec_plan", "'{}' has no rate", job.plan);
    set_usual_limits(job, context);
    return job;
}

TraceJob virtualflow_job(const Row& row, const TraceContext& context) {
    static constexpr Columns columns{"arrival_time", "gpu_demand", "workload", "", "priority"};
    TraceJob job = job_of(row, columns, fmt::format("job-{}", row.line() - 1));
    set_steps(job, context, row.has("num_steps") ? row.number("num_steps", 0, 1e15) : 1);
    job.least = 1;  // elastic jobs: what they demand is the most that they can use
    return job;
}

TraceJob philly_job(const Row& row, const TraceContext& context) {
    TraceJob job = job_of(row, {"", "num_gpus", "", "", ""}, fmt::format("philly-{}", row.line()));
    try {
        const auto arrival = parse_moment(row.text("timestamp"));
        if (!arrival) throw failure("the time is missing");
        job.arrival = *arrival;
    } catch (const Error& error) {
        throw row.bad("timestamp", "{}", error.what());
    }
    if (row.has("cluster")) job.tenant = find_tenant(context.cluster, row.text("cluster"));
    set_duration(job, context, row.time("duration"), 1);
    return job;
}

TraceJob gavel_job(const Row& row, const TraceContext& context) {
    static constexpr Columns columns{"arrival_time", "scale_factor", "job_type", "", "priority_weight"};
    TraceJob job = job_of(row, columns, fmt::format("gavel-{}", row.line() - 1));
    const double slo = row.number("slo", -1, 1e9);
    set_steps(job, context, row.number("total_steps", 0, 1e15));
    if (slo > 0)
        job.deadline =
            time_of(slo * seconds_of(static_cast<Time>(job.work / full_rate(job, context.cluster, context.empty))));
    return job;
}

}  // namespace tpx::formats
