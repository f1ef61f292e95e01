// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/columns.hpp"
#include "formats/files/profile/table.hpp"

#include <optional>
#include <string>

namespace tpx::formats {

/// Reads the quantities of one row of a table of runs. All arguments must outlive the reader.
class RowReader {
public:
    RowReader(const Table& table, const ColumnMap& columns, const Table::Row& row)
        : table_{table}, columns_{columns}, row_{row} {}

    /// The cell of `quantity`, translated by the column map; unset if the cell is empty or a word such as NaN.
    std::optional<std::string> text(const std::string& quantity) const;

    /// The result of `read_text` for text(). An Error that it throws is prefixed as by in_cell().
    template <class Read>
    auto read(const std::string& quantity, Read&& read_text) const -> std::optional<decltype(read_text(""))> {
        const std::optional<std::string> cell = text(quantity);
        if (!cell) return std::nullopt;
        return in_cell(quantity, [&] { return read_text(*cell); });
    }

    /// The result of `body`. An Error that it throws is prefixed with the line and, if `quantity` has one, the column;
    /// its exit status becomes 1.
    template <class Body>
    auto in_cell(const std::string& quantity, Body&& body) const {
        try {
            return body();
        } catch (const Error& error) {
            throw error_in(quantity, error);
        }
    }

    /// The unit of the column of `quantity`; empty if it has none. Precondition: text() has a value.
    const std::string& unit(const std::string& quantity) const { return columns_.sources.at(quantity).unit; }

private:
    std::string spread_digits(const ColumnSource& source, const std::string& cell) const;
    Error error_in(const std::string& quantity, const Error& error) const;

    const Table& table_;
    const ColumnMap& columns_;
    const Table::Row& row_;
};

}  // namespace tpx::formats
