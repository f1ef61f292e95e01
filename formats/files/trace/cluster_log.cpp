// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/cluster_log.hpp"

#include "formats/files/trace/log_cells.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/lower_case.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace tpx::formats {
namespace {

constexpr int most_log_gpus = 1 << 20;
constexpr double longest_wait = 2 * 365 * 86'400.0;  // seconds

// "Run time" for "Run time [h]".
std::string_view name_without_unit(std::string_view name) {
    const auto is_separator = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; };
    const auto skip = [&](bool separators) {
        std::string_view rest = name;
        while (!rest.empty() && is_separator(rest.back()) == separators) rest.remove_suffix(1);
        return rest;
    };
    const std::string_view whole = name;
    name = skip(true);
    const std::string_view before = skip(false);
    const bool has_unit = seconds_of_unit(lower_case(name.substr(before.size()))) > 0;
    name = before;
    return has_unit ? skip(true) : whole;
}

}  // namespace

std::optional<ClusterLog> ClusterLog::find(const Table& table) {
    if (!missing(table).empty()) return std::nullopt;
    ClusterLog log{table};
    log.find_columns();
    return log;
}

std::vector<std::string_view> ClusterLog::missing(const Table& table) {
    ClusterLog log{table};
    log.find_columns();
    std::vector<std::string_view> lacking;
    if (!log.has(Quantity::submitted) && !log.has(Quantity::started))
        lacking.emplace_back("a time of arrival (such as submit_time or start_time)");
    if (!log.has(Quantity::duration) && !(log.has(Quantity::started) && log.has(Quantity::ended)))
        lacking.emplace_back("a duration (such as duration, or start_time and end_time)");
    if (!log.has(Quantity::gpus))
        lacking.emplace_back("GPUs (such as gpu_num, num_gpus or gpus, or AllocTRES of Slurm)");
    if (log.lacks_nodes_) lacking.emplace_back("a number of nodes (such as num_nodes), because its GPUs are per node");
    return lacking;
}

std::string_view ClusterLog::text(const Table::Row& row, Quantity quantity) const {
    return has(quantity) ? std::string_view{row.cells[column(quantity).index]} : std::string_view{};
}

// What `parse` makes of the cell; its error names the column.
template <class Parse>
auto ClusterLog::parsed(const Table::Row& row, Quantity quantity, Parse parse) const {
    try {
        return parse(text(row, quantity));
    } catch (const Error& error) {
        throw bad(row, quantity, "{}", error.what());
    }
}

// The number in a cell, 0 where it is empty. `resource` is what Slurm calls the quantity.
double ClusterLog::number(const Table::Row& row, Quantity quantity, std::string_view resource) const {
    return parsed(row, quantity, [&](std::string_view cell) {
        if (cell.empty()) return 0.0;
        const double value = is_resource_list(cell) ? slurm_amount(cell, resource) : parse_number(cell);
        if (value < 0 || value > 1e9) throw failure("{:g} is not from 0 to 1e9", value);
        return value * column(quantity).unit;
    });
}

// How many instances the number in a column of `quantity` counts for.
double ClusterLog::instances(const Table::Row& row, Quantity quantity) const {
    return column(quantity).per_instance && !text(row, Quantity::instances).empty() ? number(row, Quantity::instances)
                                                                                    : 1;
}

std::string ClusterLog::name_of(const Table::Row& row) const {
    const std::string_view name = text(row, Quantity::name), task = text(row, Quantity::task);
    if (name.empty()) return fmt::format("job-{}", row.line);
    return task.empty() ? std::string{name} : fmt::format("{}/{}", name, task);
}

// Rounded up: jobs cannot share a GPU in the simulation.
int ClusterLog::gpus_of(const Table::Row& row) const {
    const double gpus = std::ceil(number(row, Quantity::gpus, "gres/gpu")) * instances(row, Quantity::gpus);
    if (gpus > most_log_gpus) throw bad(row, Quantity::gpus, "{:g} GPUs, at most {}", gpus, most_log_gpus);
    return static_cast<int>(std::ceil(gpus));
}

bool ClusterLog::has_part_of_gpu(const Table::Row& row) const {
    const double each = has(Quantity::share) && !text(row, Quantity::share).empty()
                            ? number(row, Quantity::share)
                            : number(row, Quantity::gpus, "gres/gpu");
    return each != std::ceil(each);
}

int ClusterLog::kind_of(const Table::Row& row, const Cluster& cluster) const {
    std::string_view name = text(row, Quantity::kind);
    if (is_resource_list(name)) name = slurm_gpu_type(name);
    // With one kind of GPU there is no choice; a cell such as "A|B" allows several kinds.
    if (name.empty() || cluster.kinds.size() == 1 || name.find('|') != name.npos) return any;
    const int kind = find_kind(cluster, name);
    if (kind == any) throw bad(row, Quantity::kind, "the cluster has no GPUs of kind '{}'", name);
    return kind;
}

// The time in a cell; nothing if it is missing. PAI's tables write 0 for a missing time.
std::optional<Time> ClusterLog::moment(const Table::Row& row, Quantity quantity) const {
    const auto time =
        parsed(row, quantity, [&](std::string_view cell) { return parse_moment(cell, column(quantity).unit); });
    const bool of_pai = column(Quantity::gpus).unit == plan_percent;
    return of_pai && time == Time{0} ? std::nullopt : time;
}

// How long the job ran; nothing if it has not ended.
std::optional<Time> ClusterLog::duration_of(const Table::Row& row) const {
    const auto ended = moment(row, Quantity::ended);
    if (has(Quantity::ended) && !ended) return std::nullopt;
    if (!is_missing_time(text(row, Quantity::duration)))
        return parsed(row, Quantity::duration,
                      [&](std::string_view cell) { return parse_duration(cell, column(Quantity::duration).unit); });
    const auto started = moment(row, Quantity::started);
    if (!started || !ended) return std::nullopt;
    if (*ended < *started)
        throw bad(row, Quantity::ended, "'{}' is before the start of the job, '{}'", text(row, Quantity::ended),
                  text(row, Quantity::started));
    if (*ended - *started > time_of(max_trace_seconds))
        throw bad(row, Quantity::ended, "'{}' is more than {:g} seconds after the start of the job, '{}'",
                  text(row, Quantity::ended), max_trace_seconds, text(row, Quantity::started));
    return *ended - *started;
}

// The time of submission. Throws Error if the job starts a second or more before it, a shorter time may be due to
// rounding, or years after it.
Time ClusterLog::arrival_of(const Table::Row& row, Time submitted) const {
    const auto started = moment(row, Quantity::started);
    if (started && *started + second <= submitted)
        throw bad(row, Quantity::started, "'{}' is before the submission of the job, '{}'",
                  text(row, Quantity::started), text(row, Quantity::submitted));
    if (started && *started - submitted > time_of(longest_wait))
        throw bad(row, Quantity::started, "'{}' is more than two years after the submission of the job, '{}'",
                  text(row, Quantity::started), text(row, Quantity::submitted));
    return submitted;
}

std::optional<TraceJob> ClusterLog::job(const Table::Row& row, const TraceContext& context) {
    const auto leave_out = [&](std::string_view why) {
        ++skipped_[why];
        return std::nullopt;
    };
    // sacct lists the steps of a job ("101.batch") after the job, and its durations leave out suspensions.
    const bool of_slurm = lower_case(table_.columns[column(Quantity::gpus).index]).ends_with("tres");
    has_pauses_ = has_pauses_ || of_slurm;
    if (of_slurm && text(row, Quantity::name).find('.') != std::string_view::npos) return std::nullopt;
    if (has(Quantity::started) && !moment(row, Quantity::started)) return leave_out("that never ran");
    TraceJob job;
    job.name = name_of(row);
    job.gpus = job.least = job.most = gpus_of(row);
    if (job.gpus == 0) return leave_out("without GPUs");
    compare_duration(row);
    const std::optional<Time> duration = duration_of(row);
    if (!duration) return leave_out("that had not ended");
    // Some versions of Slurm record a start for jobs that were canceled while they waited.
    if (*duration == 0) return leave_out("that never ran");
    const auto submitted = moment(row, has(Quantity::submitted) ? Quantity::submitted : Quantity::started);
    if (!submitted) return leave_out("without a submission time");
    job.arrival = arrival_of(row, *submitted);
    job.cpus = number(row, Quantity::cores, "cpu") * instances(row, Quantity::cores) / job.gpus;
    job.kind = kind_of(row, context.cluster);
    job.tenant = find_tenant(context.cluster, text(row, Quantity::tenant));
    const std::string job_class = lower_case(text(row, Quantity::job_class));
    job.guaranteed = job_class != "spot" && job_class != "be";
    set_duration(job, context, *duration, 1);
    if (has_part_of_gpu(row)) ++rounded_;
    return job;
}

// Counts durations that differ from the time between start and end, because they include the time in the queue or are
// in another unit, and notices submissions in milliseconds or smaller units. Must precede duration_of(), which refuses
// durations that are too long because their unit is another.
void ClusterLog::compare_duration(const Table::Row& row) {
    const std::string_view length = text(row, Quantity::duration);
    if (is_missing_time(length) || has_pauses_) return;
    const Quantity arrival = has(Quantity::submitted) ? Quantity::submitted : Quantity::started;
    const auto number = finite_number(text(row, arrival)), plain = finite_number(length);
    const double unit = column(Quantity::duration).unit;
    if (number && plain && column(arrival).unit == 1 && unit == 1)
        has_fine_times_ = has_fine_times_ || unit_of_moment(*number) < 1;
    const auto started = moment(row, Quantity::started), ended = moment(row, Quantity::ended);
    if (!started || !ended || *ended < *started || plain == 0) return;
    if (const auto submitted = moment(row, arrival); submitted && *started + second <= *submitted) return;
    // Whole numbers may be rounded.
    const double run = seconds_of(*ended - *started), rounding = plain && *plain == std::floor(*plain) ? 0.5 : 0;
    const auto differs = [&](double given, double least) {
        constexpr double tolerance = 0.05;
        return std::abs(run - given) > std::max(tolerance * std::max(run, given), least);
    };
    ++timed_;
    const double given = plain ? *plain * unit : seconds_of(duration_of(row).value_or(0));
    if (!differs(given, std::max(1.0, rounding * unit))) return;
    ++differing_;
    for (std::size_t i = 0; plain && i < units.size(); ++i)
        by_unit_[i] += !differs(*plain * units[i].seconds, rounding * units[i].seconds);
}

void ClusterLog::check_unit_of_durations() const {
    const Column& duration = column(Quantity::duration);
    for (std::size_t i = 0; i < units.size(); ++i) {
        if (by_unit_[i] * 2 <= timed_) continue;
        const std::string& name = table_.columns[duration.index];
        const auto* named = std::ranges::find(units, duration.unit, &Unit::seconds);
        throw failure(
            "{}: column '{}' is read in {}, but in {} of {} it equals the time between start and end only in {}; "
            "rename it to {}_{}",
            table_.file, name, named == units.end() ? "weeks" : named->words, by_unit_[i], counted(timed_, "job"),
            units[i].words, name_without_unit(name), units[i].symbol);
    }
}

void ClusterLog::add_notes_on_times(std::vector<std::string>& notes) const {
    if (!has(Quantity::duration)) return;
    const std::string& name = table_.columns[column(Quantity::duration).index];
    if (differing_ * 2 > timed_)
        notes.push_back(
            fmt::format("'{}' is used as the duration, although it differs from the time between start and end by more "
                        "than 5 % in {} of {}",
                        name, differing_, counted(timed_, "job")));
    else if (has_fine_times_ && timed_ == 0)
        notes.push_back(
            fmt::format("'{}' is read as seconds, but submissions are in smaller units; rename it to {}_ms if "
                        "it is in milliseconds",
                        name, name));
}

std::vector<std::string> ClusterLog::unused_columns() const {
    std::vector<std::string> unused;
    for (std::size_t i = 0; i < table_.columns.size(); ++i)
        if (std::ranges::find(columns_, i, &Column::index) == columns_.end())
            unused.push_back(fmt::format("'{}'", table_.columns[i]));
    return unused;
}

std::vector<std::string> ClusterLog::notes() const {
    constexpr std::size_t most_named = 8;
    std::vector<std::string> notes, unused = unused_columns();
    if (const std::size_t all = unused.size(); all > 0) {
        unused.resize(std::min(all, most_named));
        const std::string more = all > most_named ? fmt::format(" and {} more", all - most_named) : "";
        notes.push_back(fmt::format("column{} {}{} {} not used", all == 1 ? "" : "s", fmt::join(unused, ", "), more,
                                    all == 1 ? "is" : "are"));
    }
    add_notes_on_times(notes);
    for (const auto& [why, count] : skipped_)
        notes.push_back(fmt::format("left out {} {}", counted(count, "job"), why));
    if (rounded_ > 0)
        notes.push_back(fmt::format("{} requested part of a GPU; rounded up to a whole GPU", counted(rounded_, "job")));
    return notes;
}

}  // namespace tpx::formats
