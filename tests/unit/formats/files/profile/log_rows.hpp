// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/logs/training_log.hpp"
#include "formats/files/profile/runs_table.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace tpx::formats {

/// The table of the log `text`.
inline RunsTable runs_of(std::string_view text, const RunOverrides& given = {}) {
    const TrainingLog log = parse_training_log(text, "log");
    return runs_table({&log, 1}, given);
}

/// The cells of a row, without its label and empty cells: "gpus=8 dp=4".
inline std::string cells(const RunsTable& runs, std::size_t row = 0) {
    std::string text;
    for (std::size_t i = 1; i < runs.table.columns.size(); ++i)
        if (!runs.table.rows.at(row).cells[i].empty())
            text +=
                fmt::format("{}{}={}", text.empty() ? "" : " ", runs.table.columns[i], runs.table.rows[row].cells[i]);
    return text;
}

}  // namespace tpx::formats
