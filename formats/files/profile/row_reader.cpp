// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/row_reader.hpp"

#include "formats/files/profile/run_cells.hpp"

#include <fmt/format.h>

namespace tpx::formats {

std::optional<std::string> RowReader::text(const std::string& quantity) const {
    const auto found = columns_.sources.find(quantity);
    if (found == columns_.sources.end()) return std::nullopt;
    const ColumnSource& source = found->second;
    const std::string cell = source.column.empty() ? source.value : row_.cells[table_.find(source.column)];
    const auto meaning = source.values.find(cell);
    if (meaning != source.values.end()) return meaning->second;
    if (cells::is_missing(cell)) return std::nullopt;
    return source.digits.empty() ? cell : spread_digits(source, cell);
}

// "248" with digits pp, tp, dp: "pp=2,tp=4,dp=8"; with one key for all of them, "+" between the digits.
std::string RowReader::spread_digits(const ColumnSource& source, const std::string& cell) const {
    std::string text;
    const bool same = source.digits.size() == 1;
    if (cell.find_first_not_of("0123456789") != cell.npos || (!same && cell.size() != source.digits.size()))
        throw bad_cell(table_, row_, source.column, "'{}' is not {}", cell,
                       same ? "a row of digits" : fmt::format("{} digits", source.digits.size()));
    for (std::size_t i = 0; i < cell.size(); ++i) {
        if (i > 0) text += same ? '+' : ',';
        text += same ? std::string{cell[i]} : fmt::format("{}={}", source.digits[i], cell[i]);
    }
    return text;
}

Error RowReader::error_in(const std::string& quantity, const Error& error) const {
    const auto found = columns_.sources.find(quantity);
    if (found != columns_.sources.end() && !found->second.column.empty())
        return bad_cell(table_, row_, found->second.column, "{}", error.what());
    return failure("{}:{}: {}", table_.file, row_.line, error.what());
}

}  // namespace tpx::formats
