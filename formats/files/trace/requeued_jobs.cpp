// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/requeued_jobs.hpp"

#include "formats/files/trace/log_cells.hpp"
#include "lib/core/lower_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

// The columns of sacct that a merged row combines; Table::npos for those that the table lacks.
class SlurmColumns {
public:
    explicit SlurmColumns(const Table& table) {
        for (std::size_t i = 0; i < table.columns.size(); ++i) {
            const std::string name = lower_case(table.columns[i]);
            for (const auto& [known, column] : columns_)
                if (name == known) *column = i;
        }
    }
    SlurmColumns(const SlurmColumns&) = delete;

    bool are_of_slurm() const { return id != Table::npos && (requested != Table::npos || allocated != Table::npos); }

    std::size_t id = Table::npos, state = Table::npos, start = Table::npos, end = Table::npos, elapsed = Table::npos,
                elapsed_raw = Table::npos, requested = Table::npos, allocated = Table::npos;

private:
    const std::array<std::pair<std::string_view, std::size_t*>, 8> columns_{{{"jobid", &id},
                                                                             {"state", &state},
                                                                             {"start", &start},
                                                                             {"end", &end},
                                                                             {"elapsed", &elapsed},
                                                                             {"elapsedraw", &elapsed_raw},
                                                                             {"reqtres", &requested},
                                                                             {"alloctres", &allocated}}};
};

// Whether Slurm puts a job back into the queue after a run that ended in `state`. Without a state, it may have.
bool is_requeued(std::string_view state) {
    const std::string lower = lower_case(state);
    constexpr std::array<std::string_view, 5> states{"requeue", "preempted", "node_fail", "boot_fail", "revoked"};
    return state.empty() || std::ranges::any_of(states, [&](std::string_view each) { return lower.starts_with(each); });
}

// How long the run of `row` took; 0 if it did not start or has not ended.
Time run_time(const SlurmColumns& columns, const Table::Row& row) {
    for (const std::size_t column : {columns.elapsed_raw, columns.elapsed})
        if (column != Table::npos && !row.cells[column].empty()) return parse_duration(row.cells[column]);
    if (columns.start == Table::npos || columns.end == Table::npos) return {};
    const auto start = parse_moment(row.cells[columns.start]), end = parse_moment(row.cells[columns.end]);
    return start && end && *end > *start ? *end - *start : Time{};
}

// `first` followed by `next`, a later run of the same job. Throws Error, and changes nothing, if a time is invalid.
void append_run(const SlurmColumns& columns, Table::Row& first, const Table::Row& next) {
    const Time total = run_time(columns, first) + run_time(columns, next);
    if (columns.start != Table::npos) {
        const bool has_elapsed = columns.elapsed != Table::npos || columns.elapsed_raw != Table::npos;
        const auto end = columns.end == Table::npos ? std::nullopt : parse_moment(next.cells[columns.end]);
        const bool has_started = parse_moment(first.cells[columns.start]).has_value();
        std::string start = has_started ? first.cells[columns.start] : next.cells[columns.start];
        // If only start and end record the duration, move the start so that end - start is the total run time.
        if (!has_elapsed && end) start = fmt::format("{:.6f}", seconds_of(*end - total));
        first.cells[columns.start] = std::move(start);
    }
    for (const std::size_t column : {columns.end, columns.state})
        if (column != Table::npos) first.cells[column] = next.cells[column];
    for (const std::size_t column : {columns.elapsed_raw, columns.elapsed})
        if (column != Table::npos) first.cells[column] = fmt::format("{}", seconds_of(total));
}

}  // namespace

Requeues merge_requeues(Table& table) {
    Requeues result;
    const SlurmColumns columns{table};
    if (!columns.are_of_slurm()) return result;
    struct Known {
        std::size_t row = 0, runs = 0, jobs = 1;
    };
    std::map<std::string, Known, std::less<>> jobs;  // by ID
    std::vector<Table::Row> rows;
    for (Table::Row& row : table.rows) {
        const std::string id = row.cells[columns.id];
        const bool is_step = id.find('.') != id.npos;
        const auto [known, is_new] = jobs.try_emplace(id, Known{rows.size(), 1, 1});
        if (is_step || is_new) {
            rows.push_back(std::move(row));
            continue;
        }
        Known& job = known->second;
        Table::Row& first = rows[job.row];
        if (columns.state == Table::npos || is_requeued(first.cells[columns.state])) {
            try {
                append_run(columns, first, row);
                const bool is_first_part = id.find('+') == id.npos || id.ends_with("+0");
                result.merged += ++job.runs == 2 && is_first_part;
            } catch (const Error&) {
                rows.push_back(std::move(row));  // ClusterLog reports the invalid time
            }
            continue;
        }
        job = {rows.size(), 1, job.jobs + 1};
        ++result.renamed;
        row.cells[columns.id] = fmt::format("{}#{}", id, job.jobs);
        rows.push_back(std::move(row));
    }
    table.rows = std::move(rows);
    return result;
}

}  // namespace tpx::formats
