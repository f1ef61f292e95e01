// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/table.hpp"
#include "formats/files/trace/rows.hpp"
#include "lib/cluster/job.hpp"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// A job log of a cluster: one row per job, with the times at which the job was submitted, started and ended. Slurm's
/// `sacct -P` prints such a table, and the traces of Helios, Acme and Alibaba are such tables. Columns are found by
/// name; see tpx-trace(5).
class ClusterLog {
public:
    /// The log in `table`; nothing where GPUs, a time of arrival or durations have no column.
    static std::optional<ClusterLog> find(const Table& table);

    /// What find() needs and `table` lacks, in words; of three quantities.
    static std::vector<std::string_view> missing(const Table& table);

    /// The job in `row`; its arrival is in the log's own time. Nothing if the job used no GPUs, never ran or had not
    /// ended; notes() counts these. Throws Error that names the column.
    std::optional<TraceJob> job(const Table::Row& row, const TraceContext& context);

    /// States that durations may be shorter than the time from start to end.
    void allow_pauses() { has_pauses_ = true; }

    /// Throws Error if start and end show that most durations read so far are in another unit than the column's name
    /// says.
    void check_unit_of_durations() const;

    /// Notes about the rows read so far, such as "left out 3 jobs without GPUs", and about columns that are not used.
    std::vector<std::string> notes() const;

private:
    enum class Quantity {
        name,
        task,
        submitted,
        started,
        ended,
        duration,
        gpus,
        share,
        instances,
        cores,
        kind,
        tenant,
        job_class
    };
    static constexpr std::size_t quantity_count = std::size_t(Quantity::job_class) + 1;
    static constexpr double plan_percent = 0.01;  // unit of plan_gpu
    struct Column {
        std::size_t index = Table::npos;
        double unit = 1;            // value of 1 in this column; of times, seconds
        bool per_instance = false;  // the number is for one instance, not for the job
        std::string_view name;      // of the known column
    };
    struct KnownColumn {
        std::string_view name;
        Quantity quantity;
        double unit = 1;
        bool per_instance = false;

        bool counts_hosts() const {
            return quantity == Quantity::instances &&
                   (name.find("node") != name.npos || name.find("host") != name.npos);
        }
    };
    static const KnownColumn known_columns[];
    struct Unit {
        std::string_view symbol, words;
        double seconds;
    };
    static constexpr std::array<Unit, 7> units{{{"s", "seconds", 1},
                                                {"min", "minutes", 60},
                                                {"h", "hours", 3600},
                                                {"d", "days", 86'400},
                                                {"ms", "milliseconds", 1e-3},
                                                {"us", "microseconds", 1e-6},
                                                {"ns", "nanoseconds", 1e-9}}};

    explicit ClusterLog(const Table& table) : table_{table} {}
    static bool is_time(Quantity quantity) {
        return quantity == Quantity::submitted || quantity == Quantity::started || quantity == Quantity::ended ||
               quantity == Quantity::duration;
    }
    void find_columns();
    const Column& column(Quantity quantity) const { return columns_[std::size_t(quantity)]; }
    bool has(Quantity quantity) const { return column(quantity).index != Table::npos; }
    std::string_view text(const Table::Row& row, Quantity quantity) const;
    template <class... Args>
    Error bad(const Table::Row& row, Quantity quantity, fmt::format_string<Args...> format, Args&&... args) const {
        return bad_cell(table_, row, table_.columns[column(quantity).index], format, std::forward<Args>(args)...);
    }
    template <class Parse>
    auto parsed(const Table::Row& row, Quantity quantity, Parse parse) const;
    double number(const Table::Row& row, Quantity quantity, std::string_view resource = {}) const;
    double instances(const Table::Row& row, Quantity quantity) const;
    std::string name_of(const Table::Row& row) const;
    int gpus_of(const Table::Row& row) const;
    bool has_part_of_gpu(const Table::Row& row) const;
    int kind_of(const Table::Row& row, const Cluster& cluster) const;
    std::optional<Time> moment(const Table::Row& row, Quantity quantity) const;
    std::optional<Time> duration_of(const Table::Row& row) const;
    Time arrival_of(const Table::Row& row, Time submitted) const;
    void compare_duration(const Table::Row& row);
    void add_notes_on_times(std::vector<std::string>& notes) const;
    std::vector<std::string> unused_columns() const;

    const Table& table_;
    std::array<Column, quantity_count> columns_{};
    std::map<std::string_view, std::uint64_t> skipped_;  // jobs by why
    std::uint64_t rounded_ = 0;                          // jobs that requested a part of a GPU
    std::uint64_t timed_ = 0, differing_ = 0;  // jobs with start, end and duration; those where the duration differs
    std::array<std::uint64_t, units.size()> by_unit_{};  // jobs whose duration is right in this unit only
    bool has_pauses_ = false;                            // durations may be shorter than the time from start to end
    bool lacks_nodes_ = false;                           // the table has GPUs per node, but no number of nodes
    bool has_fine_times_ = false;  // submissions are in smaller units than seconds, and no name of a column has a unit
};

}  // namespace tpx::formats
