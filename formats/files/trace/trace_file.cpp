// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/trace_file.hpp"

#include "formats/files/profile/table_text.hpp"
#include "formats/files/trace/cluster_log.hpp"
#include "formats/files/trace/log_cells.hpp"
#include "formats/files/trace/philly_log.hpp"
#include "formats/files/trace/requeued_jobs.hpp"
#include "formats/files/trace/rows.hpp"
#include "formats/files/trace/slurm_components.hpp"
#include "lib/cluster/gpu_pool.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/lower_case.hpp"
#include "lib/core/read_input.hpp"
#include "lib/core/units.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <set>

namespace tpx::formats {
namespace {

struct Format {
    std::string_view name;
    std::vector<std::string_view> columns;  // that it has and the others have not
    std::vector<std::string_view> others;   // that it may have
    TraceJob (*job)(const Row&, const TraceContext&);
};

const std::array<Format, 5>& known_formats() {
    static const std::array<Format, 5> all{{
        {"rubick",
         {"submission_time", "num_gpus", "exec_plan"},
         {"name", "duration", "application", "num_cpus", "bandwidth", "steps", "is_sla"},
         rubick_job},
        {"virtualflow",
         {"arrival_time", "gpu_demand", "priority"},
         {"name", "workload", "num_steps", "num_epochs", "batch_size", "dataset", "glue_task",
          "num_virtual_nodes_per_device"},
         virtualflow_job},
        {"gavel",
         {"job_type", "total_steps", "scale_factor"},
         {"name", "command", "working_directory", "num_steps_arg", "needs_data_dir", "priority_weight", "slo",
          "arrival_time"},
         gavel_job},
        {"philly", {"timestamp", "duration", "num_gpus"}, {"name", "gpu_time", "cluster"}, philly_job},
        {"tpx",
         {"arrival", "gpus"},
         {"name", "duration", "steps", "scaling", "min_gpus", "max_gpus", "kind", "priority", "tenant", "guaranteed",
          "cpus", "memory", "cpu_scaling", "deadline", "model", "plan"},
         tpx_job},
    }};
    return all;
}

// Null if the columns match no known format.
const Format* format_of(const Table& table) {
    for (const Format& format : known_formats())
        if (std::ranges::all_of(format.columns, [&](auto column) { return table.find(column) != Table::npos; }))
            return &format;
    return nullptr;
}

// The same rows under column names in lower case.
Table with_lower_case(const Table& table) {
    Table lower{table.file, {}, table.rows};
    for (const std::string& column : table.columns) lower.columns.push_back(lower_case(column));
    return lower;
}

// What the nearest known format has and `table` lacks.
std::string lacking_of(const Table& table) {
    if (table.columns.size() == 1 && table.columns[0].find("  ") != std::string::npos)
        return "its columns are separated by blanks; pass columns separated by commas, tabs or '|', such as those of "
               "sacct -P";
    const Format* nearest = nullptr;
    double most = 0;
    for (const Format& format : known_formats()) {
        const auto has =
            std::ranges::count_if(format.columns, [&](auto name) { return table.find(name) != Table::npos; });
        const double share = static_cast<double>(has) / static_cast<double>(format.columns.size());
        if (share > most) nearest = &format, most = share;
    }
    constexpr double quantities = 3;
    const std::vector<std::string_view> missing = ClusterLog::missing(table);
    // Columns of tpx and VirtualFlow traces also occur in job logs.
    const bool is_ambiguous = nearest && (nearest->name == "tpx" || nearest->name == "virtualflow");
    if (const double share = 1 - static_cast<double>(missing.size()) / quantities; share > most && !is_ambiguous)
        return fmt::format("the nearest is a job log, which also needs {}", fmt::join(missing, " and "));
    if (!nearest) return "none of the columns is of a known format";
    std::vector<std::string> lacking;
    for (const std::string_view column : nearest->columns)
        if (table.find(column) == Table::npos) lacking.push_back(fmt::format("'{}'", column));
    return fmt::format("the nearest is that of {} traces, which lacks {} {}", nearest->name,
                       lacking.size() == 1 ? "column" : "columns", fmt::join(lacking, ", "));
}

// Traces of tpx say how long a job takes in one of two ways.
void check_work(const Table& table, const Format& format) {
    if (format.name == "tpx" && table.find("duration") == Table::npos && table.find("steps") == Table::npos)
        throw failure("{}: the trace has neither a column 'duration' nor 'steps'; it has {}", table.file,
                      fmt::join(table.columns, ", "));
}

// Gavel's traces have ten fields between tabs and no header; the first lines may be cut.
bool is_gavel(std::string_view text) {
    constexpr int looked_at = 10;
    for (int i = 0; i < looked_at && !text.empty(); ++i) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        if (std::ranges::count(text.substr(0, end), '\t') == 9) return true;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return false;
}

Table gavel_table(std::string_view text, std::string_view file, std::vector<std::string>& bad) {
    Table table{std::string{file}, {}, {}};
    table.columns = {"job_type",    "command",      "working_directory", "num_steps_arg", "needs_data_dir",
                     "total_steps", "scale_factor", "priority_weight",   "slo",           "arrival_time"};
    for (std::size_t line = 1; !text.empty(); ++line) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view rest = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (rest.ends_with('\r')) rest.remove_suffix(1);
        if (rest.empty()) continue;
        Table::Row row{line, {}};
        while (row.cells.size() < table.columns.size()) {
            const std::size_t tab = std::min(rest.find('\t'), rest.size());
            row.cells.emplace_back(rest.substr(0, tab));
            if (tab == rest.size()) break;
            rest.remove_prefix(tab + 1);
        }
        if (row.cells.size() == table.columns.size() && rest.find('\t') == rest.npos)
            table.rows.push_back(std::move(row));
        else
            bad.push_back(fmt::format("{}:{}: {} fields between tabs, but a trace of Gavel's has {}", file, line,
                                      row.cells.size(), table.columns.size()));
    }
    return table;
}

void find_unknown_columns(const Table& table, const Format& format, ParsedTrace& trace) {
    trace.known_columns.assign(format.columns.begin(), format.columns.end());
    trace.known_columns.insert(trace.known_columns.end(), format.others.begin(), format.others.end());
    for (const std::string& column : table.columns)
        if (std::ranges::count(trace.known_columns, column) == 0) trace.unknown_columns.push_back(column);
}

// Throws Error if `job` cannot run on the cluster even if no other job does.
void check_fit(const TraceJob& job, const Cluster& cluster, const GpuPool& empty) {
    const auto here = [&] { return job.kind == any ? "" : fmt::format(" of type {}", cluster.kinds[job.kind]); };
    if (job.gpus > cluster.gpus(job.kind))
        throw failure("the job requests {}, but the cluster has {}{}", counted(std::uint64_t(job.gpus), "GPU"),
                      cluster.gpus(job.kind), here());
    if (!empty.place(job, job.gpus))
        throw failure("the job requests {} of one type with {:g} core{} and {} each, which even the idle cluster lacks",
                      counted(std::uint64_t(job.gpus), "GPU"), job.cpus, job.cpus == 1 ? "" : "s",
                      format_bytes(job.memory));
    if (job.tenant != any && job.guaranteed && job.gpus > cluster.tenants[job.tenant].quota)
        throw failure("the job requests {}, but the quota of tenant '{}' is {}",
                      counted(std::uint64_t(job.gpus), "GPU"), cluster.tenants[job.tenant].name,
                      cluster.tenants[job.tenant].quota);
}

Table table_of(std::string_view text, std::string_view file, std::vector<std::string>& bad) {
    if (is_gavel(text)) return gavel_table(text, file, bad);
    return is_philly_log(text) ? philly_log_table(text, file, bad) : parse_table(text, file, &bad);
}

// Lists of kubectl and of Slurm's --json have objects of many forms.
void refuse_nested_lists(std::string_view text, std::string_view file) {
    const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    const auto has = [&](std::string_view key) { return text.find(key) != text.npos; };
    if (text.substr(begin).starts_with('{') && has("\"jobs\"") && has("\"tres\"") && has("\"job_id\""))
        throw failure(
            "{}: JSON of Slurm is not supported; pass the output of sacct -P with the columns in tpx-trace(5)", file);
    text = text.substr(begin, 200);
    if (text.starts_with("apiVersion:") || (text.starts_with('{') && text.find("\"apiVersion\"") != text.npos))
        throw failure(
            "{}: a list of Kubernetes objects; pass a table with columns such as name, submit_time, start_time, "
            "end_time "
            "and num_gpus; tpx-trace(5) shows how to make it with jq",
            file);
}

// The number at `at`.
std::size_t line_of(std::string_view text, std::size_t at) {
    std::size_t line = 0;
    std::from_chars(text.data() + std::min(at, text.size()), text.data() + text.size(), line);
    return line;
}

// The first line that says when a job came counts as time 0.
void count_from_first(std::vector<TraceJob>& jobs) {
    if (jobs.empty()) return;
    const Time first = std::ranges::min(jobs, {}, &TraceJob::arrival).arrival;
    for (TraceJob& job : jobs) job.arrival -= first;
}

// Whether arrivals are times since 1970. Throws Error if only some are.
bool has_dates(const std::vector<TraceJob>& jobs, std::string_view file) {
    const auto dated = std::ranges::find(jobs, true, &TraceJob::is_dated);
    const auto plain = std::ranges::find(jobs, false, &TraceJob::is_dated);
    if (dated != jobs.end() && plain != jobs.end())
        throw failure("{}: the arrival of line {} is a date, but that of line {} is a number of seconds", file,
                      dated->line, plain->line);
    return dated != jobs.end();
}

// Adds the jobs that `job_of` returns; rows for which it throws are added to trace.bad.
void add_jobs(ParsedTrace& trace, const Table& table, const TraceContext& context,
              const std::optional<Elasticity>& elasticity,
              const std::function<std::optional<TraceJob>(const Table::Row&)>& job_of) {
    std::set<std::string> names;
    for (const Table::Row& row : table.rows) {
        try {
            std::optional<TraceJob> job = job_of(row);
            if (!job) continue;
            job->line = row.line;
            if (elasticity) set_limits(*job, *elasticity);
            check_fit(*job, context.cluster, context.empty);
            if (!names.insert(job->name).second) throw failure("job '{}' is there twice", job->name);
            trace.jobs.push_back(std::move(*job));
        } catch (Error& error) {
            const std::string place = fmt::format("{}:{}: ", table.file, row.line);
            if (!std::string_view{error.what()}.starts_with(place)) error.prepend(place.substr(0, place.size() - 2));
            trace.bad.emplace_back(error.what());
        }
    }
    const std::size_t prefix = table.file.size() + 1;
    std::ranges::stable_sort(trace.bad, {}, [&](const std::string& said) { return line_of(said, prefix); });
}

}  // namespace

ParsedTrace parse_trace(std::string_view text, std::string_view file, const Cluster& cluster, const JobSpeeds& speeds,
                        const std::optional<Elasticity>& elasticity) {
    ParsedTrace trace;
    const std::string plain = table_text(text, file);
    refuse_nested_lists(plain, file);
    Table table = table_of(plain, file, trace.bad);
    if (table.columns.empty()) throw failure("{}: it has no jobs", file);
    if (!format_of(table))
        if (Table lower = with_lower_case(table); format_of(lower)) table = std::move(lower);
    const GpuPool empty{cluster};
    const TraceContext context{cluster, speeds, empty};
    if (const Format* format = format_of(table)) {
        check_work(table, *format);
        trace.format = format->name;
        find_unknown_columns(table, *format, trace);
        add_jobs(trace, table, context, elasticity, [&](const Table::Row& row) {
            return format->job(Row{table, row}, context);
        });
    } else if (auto log = ClusterLog::find(table)) {
        trace.format = "log";
        if (is_philly_log(plain)) log->allow_pauses();
        const Requeues requeues = merge_requeues(table);
        const std::size_t merged = merge_components(table);
        add_jobs(trace, table, context, elasticity, [&](const Table::Row& row) { return log->job(row, context); });
        log->check_unit_of_durations();
        trace.notes = log->notes();
        if (merged > 0)
            trace.notes.push_back(fmt::format("merged the components of {}", counted(merged, "heterogeneous job")));
        if (requeues.merged > 0)
            trace.notes.push_back(fmt::format("merged the runs of {}", counted(requeues.merged, "requeued job")));
        if (requeues.renamed > 0)
            trace.notes.push_back(fmt::format("renamed {} that {} the ID of an earlier job",
                                              counted(requeues.renamed, "job"),
                                              requeues.renamed == 1 ? "has" : "have"));
    } else {
        throw failure(
            "{}: unrecognized trace format: {}; found columns {}; known formats: columns arrival and gpus, job logs of "
            "clusters, and traces of Rubick, VirtualFlow, Gavel or Philly; see tpx-trace(5)",
            file, lacking_of(table), fmt::join(table.columns, ", "));
    }
    if (trace.format == "rubick" && std::ranges::none_of(trace.jobs, &TraceJob::guaranteed))
        for (TraceJob& job : trace.jobs) job.guaranteed = true;  // the column means nothing there
    if (trace.format == "philly" || trace.format == "log" || has_dates(trace.jobs, file)) count_from_first(trace.jobs);
    std::ranges::stable_sort(trace.jobs, {}, &TraceJob::arrival);
    return trace;
}

ParsedTrace read_trace(const std::string& path, const Cluster& cluster, const JobSpeeds& speeds,
                       const std::optional<Elasticity>& elasticity) {
    constexpr std::uint64_t longest = std::uint64_t{1} << 30;
    return parse_trace(read_input(path, longest), input_name(path), cluster, speeds, elasticity);
}

}  // namespace tpx::formats
