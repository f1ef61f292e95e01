// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/table.hpp"

#include "formats/files/profile/json_table.hpp"
#include "formats/files/profile/table_text.hpp"
#include "lib/core/counted.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tpx::formats {
namespace {

// What separates the cells of `text`: of comma, semicolon, tab and bar, that which its header has most often.
char separator_of(std::string_view text) {
    std::size_t begin = 0;
    while (begin < text.size() && (text[begin] == '#' || text[begin] == '\n' || text[begin] == '\r'))
        begin = std::min(text.find('\n', begin), text.size() - 1) + 1;
    const std::string_view header = text.substr(begin, text.find('\n', begin) - begin);
    return std::ranges::max({',', ';', '\t', '|'}, {}, [&](char c) { return std::ranges::count(header, c); });
}

// Reads CSV one record after another.
class CsvReader {
public:
    CsvReader(std::string_view text, std::string_view file) : text_{text}, file_{file}, separator_{separator_of(text)} {
        const std::string_view first = text.substr(0, text.find_first_of("\r\n"));
        if (first.size() == 5 && first.starts_with("sep=")) {  // of Excel
            separator_ = first[4];
            at_ = std::min(text.find('\n'), text.size() - 1) + 1;
            ++line_;
        }
        ends_ = {separator_, '\n'};
    }

    char separator() const { return separator_; }

    // The next record that is not blank, nor only separators, and no comment; false at the end.
    bool next(Table::Row& row) {
        while (at_ < text_.size()) {
            row.line = line_;
            const bool comment = text_[at_] == '#';
            row.cells = record();
            if (!comment && !std::ranges::all_of(row.cells, &std::string::empty)) return true;
        }
        return false;
    }

private:
    std::vector<std::string> record() {
        std::vector<std::string> cells;
        do cells.push_back(cell());
        while (at_ < text_.size() && text_[at_++] == separator_);
        ++line_;
        return cells;
    }

    // One cell, up to the separator, newline or end behind it.
    std::string cell() {
        if (at_ < text_.size() && text_[at_] == '"') return quoted();
        const std::size_t end = std::min(text_.find_first_of(ends_, at_), text_.size());
        std::string_view cell = text_.substr(at_, end - at_);
        at_ = end;
        while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\r' || cell.back() == '\t'))
            cell.remove_suffix(1);
        cell.remove_prefix(std::min(cell.find_first_not_of(" \t"), cell.size()));
        return std::string{cell};
    }

    std::string quoted() {
        const std::size_t begun = line_;
        std::string cell;
        for (++at_; at_ < text_.size(); ++at_) {
            if (text_[at_] == '\n') ++line_;
            if (text_[at_] == '"' && text_.substr(at_ + 1, 1) != "\"") break;
            if (text_[at_] == '"') ++at_;
            cell += text_[at_];
        }
        if (at_ == text_.size()) throw failure("{}:{}: a quote is not closed", file_, begun);
        ++at_;
        if (at_ < text_.size() && text_[at_] == '\r') ++at_;
        if (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n')
            throw failure("{}:{}: text after a closing quote", file_, line_);
        return cell;
    }

    std::string_view text_, file_;
    char separator_;
    std::string ends_;  // of a cell
    std::size_t at_ = 0, line_ = 1;
};

// Throws `error`, or keeps what it says.
void refuse(std::vector<std::string>* bad, const Error& error) {
    if (!bad) throw error;
    bad->emplace_back(error.what());
}

// Whether a row is "|---|:--:|" below the header of a Markdown table.
bool is_rule(const Table::Row& row) {
    const auto is_dashes = [](const std::string& cell) { return cell.find_first_not_of(":-") == cell.npos; };
    const auto has_dash = [](const std::string& cell) { return cell.find('-') != cell.npos; };
    return std::ranges::all_of(row.cells, is_dashes) && std::ranges::any_of(row.cells, has_dash);
}

// Columns without names are numbers of rows, or follow from a separator at the ends of all lines.
void drop_unnamed(Table& table) {
    for (std::size_t i = table.columns.size(); i-- > 0;) {
        if (!table.columns[i].empty()) continue;
        const auto at = static_cast<std::ptrdiff_t>(i);
        table.columns.erase(table.columns.begin() + at);
        for (Table::Row& row : table.rows) row.cells.erase(row.cells.begin() + at);
    }
}

Table parse_csv(std::string_view text, std::string_view file, std::vector<std::string>* bad) {
    Table table{std::string{file}, {}, {}};
    CsvReader reader{text, file};
    Table::Row row;
    if (!reader.next(row)) throw failure("{}: it is empty", file);
    table.columns = row.cells;
    for (std::size_t i = 0; i < table.columns.size(); ++i)
        if (!table.columns[i].empty() && table.find(table.columns[i]) != i)
            throw failure("{}:{}: column '{}' is there twice", file, row.line, table.columns[i]);
    for (bool is_first = true; reader.next(row); is_first = false) {
        while (row.cells.size() > table.columns.size() && row.cells.back().empty()) row.cells.pop_back();
        if (row.cells.size() != table.columns.size()) {
            refuse(bad, failure("{}:{}: {}, but the header has {}", file, row.line, counted(row.cells.size(), "cell"),
                                counted(table.columns.size(), "column")));
            continue;
        }
        if (!is_first || reader.separator() != '|' || !is_rule(row)) table.rows.push_back(std::move(row));
    }
    drop_unnamed(table);
    normalize_numbers(table, reader.separator());
    return table;
}

}  // namespace

std::size_t Table::find(std::string_view name) const {
    const auto found = std::ranges::find(columns, name);
    return found == columns.end() ? npos : static_cast<std::size_t>(found - columns.begin());
}

Table parse_table(std::string_view bytes, std::string_view file, std::vector<std::string>* bad) {
    const std::string plain = table_text(bytes, file);
    const std::string_view text = plain;
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first != text.npos && (text[first] == '[' || text[first] == '{'))
        return parse_json_table(text.substr(first), file, bad);
    return parse_csv(text, file, bad);
}

std::optional<double> finite_number(std::string_view text) {
    double value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = code == std::errc{} && end == text.data() + text.size() && std::isfinite(value);
    return is_number ? std::optional{value} : std::nullopt;
}

double parse_number(std::string_view text) {
    const auto value = finite_number(text);
    if (!value) throw failure("'{}' is not a number", text);
    return *value;
}

}  // namespace tpx::formats
