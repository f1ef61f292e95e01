// SPDX-License-Identifier: Apache-2.0
#include "formats/files/trace/slurm_components.hpp"

#include "formats/files/trace/log_cells.hpp"
#include "lib/core/lower_case.hpp"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

std::size_t column_of(const Table& table, std::string_view name) {
    for (std::size_t i = 0; i < table.columns.size(); ++i)
        if (lower_case(table.columns[i]) == name) return i;
    return Table::npos;
}

// "102" of "102+1"; empty for another ID, such as that of a step, "102+1.batch".
std::string_view job_of_component(std::string_view id) {
    const std::size_t plus = id.find('+');
    if (plus == id.npos || id.find_first_not_of("0123456789", plus + 1) != id.npos) return {};
    return id.substr(0, plus);
}

std::string summed_resources(std::string_view a, std::string_view b) {
    const auto sum = [&](std::string_view resource) { return slurm_amount(a, resource) + slurm_amount(b, resource); };
    const std::string_view type = slurm_gpu_type(a).empty() ? slurm_gpu_type(b) : slurm_gpu_type(a);
    const bool is_same =
        slurm_gpu_type(a) == slurm_gpu_type(b) || slurm_amount(a, "gres/gpu") == 0 || slurm_amount(b, "gres/gpu") == 0;
    std::string list = fmt::format("cpu={:g},gres/gpu={:g}", sum("cpu"), sum("gres/gpu"));
    if (is_same && !type.empty()) list += fmt::format(",gres/gpu:{}={:g}", type, sum("gres/gpu"));
    return list;
}

}  // namespace

std::size_t merge_components(Table& table) {
    const std::size_t name = column_of(table, "jobid");
    const std::size_t requested = column_of(table, "reqtres"), allocated = column_of(table, "alloctres");
    if (name == Table::npos || (requested == Table::npos && allocated == Table::npos)) return 0;
    std::vector<Table::Row> rows;
    std::map<std::string, std::size_t, std::less<>> merged;  // the job's index in `rows`
    for (Table::Row& row : table.rows) {
        const std::string job{job_of_component(row.cells[name])};
        const auto [first, is_new] = merged.try_emplace(job, rows.size());
        if (job.empty() || is_new) {
            if (!job.empty()) row.cells[name] = job;
            rows.push_back(std::move(row));
            continue;
        }
        std::vector<std::string>& cells = rows[first->second].cells;
        for (const std::size_t column : {requested, allocated})
            if (column != Table::npos) cells[column] = summed_resources(cells[column], row.cells[column]);
    }
    merged.erase("");
    table.rows = std::move(rows);
    return merged.size();
}

}  // namespace tpx::formats
