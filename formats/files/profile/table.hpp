// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// Rows of text under named columns.
struct Table {
    struct Row {
        std::size_t line = 0;  ///< where it begins in the file, from 1; of JSON: which object
        std::vector<std::string> cells;
    };
    std::string file;
    std::vector<std::string> columns;
    std::vector<Row> rows;  ///< each with as many cells as there are columns

    /// The number of the column called `name`, or npos.
    std::size_t find(std::string_view name) const;
    static constexpr std::size_t npos = std::size_t(-1);
};

/// The rows of `bytes`, after table_text(): CSV as in RFC 4180, also with semicolons, tabs or bars (a header; quotes,
/// also over lines; blank lines, lines with # and columns without a name are skipped; decimal commas and separators of
/// thousands are understood), or JSON, as for parse_json_table(). Throws Error "FILE:LINE: cause"; with `bad`, what is
/// wrong with one row of CSV or one line of JSON is added there instead, and the row left out.
Table parse_table(std::string_view bytes, std::string_view file, std::vector<std::string>* bad = nullptr);

/// An error about one cell: "FILE:LINE: column 'NAME': cause".
template <class... Args>
Error bad_cell(const Table& table, const Table::Row& row, std::string_view column, fmt::format_string<Args...> format,
               Args&&... args) {
    Error error{Exit::failure, format, std::forward<Args>(args)...};
    error.prepend(fmt::format("{}:{}: column '{}'", table.file, row.line, column));
    return error;
}

/// The finite number in `text` if that is all of it.
std::optional<double> finite_number(std::string_view text);

/// `text` as a finite number; throws Error "'TEXT' is not a number" otherwise.
double parse_number(std::string_view text);

}  // namespace tpx::formats
