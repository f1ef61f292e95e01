// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/table.hpp"
#include "formats/files/trace/speeds_file.hpp"
#include "lib/cluster/gpu_pool.hpp"
#include "lib/cluster/job.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// The longest time of a trace, in seconds: 31 years.
inline constexpr double max_trace_seconds = 1e9;

/// One row of a table, whose cells are read with the checks that traces need. Throws Error that names the column.
class Row {
public:
    Row(const Table& table, const Table::Row& row) : table_{table}, row_{row} {}

    bool has(std::string_view column) const { return !text(column).empty(); }
    /// Empty where there is no such column.
    std::string_view text(std::string_view column) const;
    double number(std::string_view column, double least, double most) const;
    int whole(std::string_view column, int least, int most) const;
    /// Seconds from 0 to max_trace_seconds, also as in parse_duration().
    Time time(std::string_view column) const;
    /// The time since 1970 of a date, or of a number above max_trace_seconds; nothing for other cells.
    std::optional<Time> date(std::string_view column) const;
    bool truth(std::string_view column) const;
    std::size_t line() const { return row_.line; }

    template <class... Args>
    Error bad(std::string_view column, fmt::format_string<Args...> format, Args&&... args) const {
        return bad_cell(table_, row_, column, format, std::forward<Args>(args)...);
    }

private:
    const Table& table_;
    const Table::Row& row_;
};

/// Throws Error if `table` has a column that is not one of `known`.
void check_columns_of(const Table& table, const std::vector<std::string>& known);

/// Throws Error if `table` has a column whose name resembles a name in `known` but differs from it; other columns are
/// ignored.
void check_misspelled(const Table& table, const std::vector<std::string>& known);

/// What rows become jobs with.
struct TraceContext {
    const Cluster& cluster;
    const JobSpeeds& speeds;
    const GpuPool& empty;  ///< the whole cluster
};

/// The number of `name` among the kinds or tenants of a cluster; any for none.
int find_kind(const Cluster& cluster, std::string_view name);
int find_tenant(const Cluster& cluster, std::string_view name);

/// A job that takes `duration` with the GPUs it asks for, and with others (g / asked)^`exponent` of that speed; or as
/// the rates of its name or model say, if there are any.
void set_duration(TraceJob& job, const TraceContext& context, Time duration, double exponent);

/// The plan that Rubick's artifact calls `name`, such as "124" or "zero-dp", in the syntax of tpx-throughput(5); empty
/// if the artifact has no such name.
std::string plan_of_rubick(std::string_view name);

/// Lets `job` run under `plan`, as in tpx-throughput(5) or in Rubick's artifact, at the step times that are predicted
/// for its model; dp is inferred from the number of GPUs, and micro-batches and passes are chosen if the plan does not
/// contain them; an empty plan selects the fastest one. Returns false if there are no predictions for its model. Throws
/// Error if the plan is impossible.
bool set_predicted(TraceJob& job, const TraceContext& context, const std::string& plan);

/// A job of `steps` steps at the rates of its name or model. Throws Error where there are none.
void set_steps(TraceJob& job, const TraceContext& context, double steps);

TraceJob tpx_job(const Row& row, const TraceContext& context);
TraceJob rubick_job(const Row& row, const TraceContext& context);
TraceJob virtualflow_job(const Row& row, const TraceContext& context);
/// Its arrival counts from 1970.
TraceJob philly_job(const Row& row, const TraceContext& context);
TraceJob gavel_job(const Row& row, const TraceContext& context);

/// The microseconds since 1970 of "2017-10-09 07:01:55". The text may have a T instead of the blank, a fraction of a
/// second and a time zone, and may lack the seconds.
Time parse_timestamp(std::string_view text);

}  // namespace tpx::formats
