// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/json_table.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace tpx::formats {
namespace {

using nlohmann::ordered_json;

std::string text_of(const ordered_json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// "8+8+4" for the GPUs of each host; empty for other values.
std::string placement_of(const std::string& column, const ordered_json& array) {
    if (column != "placement" || !array.is_array()) return {};
    std::string text;
    for (const ordered_json& each : array) {
        if (!each.is_number()) return {};
        text += (text.empty() ? "" : "+") + each.dump();
    }
    return text;
}

std::string& cell_of(Table& table, Table::Row& row, const std::string& column) {
    std::size_t index = table.find(column);
    if (index == Table::npos) {
        index = table.columns.size();
        table.columns.push_back(column);
        for (Table::Row& before : table.rows) before.cells.emplace_back();
        row.cells.emplace_back();
    }
    return row.cells[index];
}

void add_members(Table& table, Table::Row& row, const ordered_json& object, const std::string& outer) {
    for (const auto& [key, value] : object.items()) {
        const std::string column = outer.empty() ? key : outer + "." + key;
        if (value.is_object() && outer.empty()) {
            add_members(table, row, value, key);
            continue;
        }
        const std::string sum = placement_of(key, value);
        if (value.is_structured() && sum.empty())
            throw bad_cell(table, row, column, "a number, text or truth value was expected");
        std::string& cell = cell_of(table, row, column);
        if (!value.is_null()) cell = sum.empty() ? text_of(value) : sum;
    }
}

void add_object(Table& table, const ordered_json& object) {
    Table::Row row{table.rows.size() + 1, std::vector<std::string>(table.columns.size())};
    if (!object.is_object()) throw failure("{}:{}: an object was expected", table.file, row.line);
    add_members(table, row, object, "");
    table.rows.push_back(std::move(row));
}

void add_line(Table& table, std::string_view line, std::vector<std::string>* bad) {
    try {
        add_object(table, ordered_json::parse(line));
    } catch (const nlohmann::json::exception& error) {
        const Error said = failure("{}:{}: not JSON: {}", table.file, table.rows.size() + 1, error.what());
        if (!bad) throw said;
        bad->emplace_back(said.what());
    }
}

bool all_members(const ordered_json& whole, auto&& is_right) {
    return !whole.empty() &&
           std::ranges::all_of(whole, [&](const ordered_json& member) { return !member.empty() && is_right(member); });
}

bool is_array_of_objects(const ordered_json& value) {
    return value.is_array() && all_members(value, [](const ordered_json& each) { return each.is_object(); });
}

// The only member of `whole` that is an array of objects; null if there are none or several.
const ordered_json* only_array(const ordered_json& whole) {
    if (std::ranges::count_if(whole, is_array_of_objects) != 1) return nullptr;
    return &*std::ranges::find_if(whole, is_array_of_objects);
}

// Whether all keys of `object` are numbers of rows.
bool has_row_numbers(const ordered_json& object) {
    for (const auto& [key, value] : object.items())
        if (key.empty() || key.find_first_not_of("0123456789") != key.npos) return false;
    return true;
}

// The objects of a table by columns: {"tp": {"0": 4, "1": 8}, ...} or {"tp": [4, 8], ...}.
ordered_json rows_of_columns(const ordered_json& whole) {
    ordered_json rows = ordered_json::array();
    std::map<std::string, std::size_t> numbers;
    for (const auto& [column, cells] : whole.items())
        for (const auto& [key, cell] : cells.items()) {
            const auto [number, is_new] = numbers.try_emplace(key, rows.size());
            if (is_new) rows.push_back(ordered_json::object());
            rows[number->second][column] = cell;
        }
    return rows;
}

// The objects of {"columns": ["tp", ...], "data": [[4, ...], ...]}.
ordered_json rows_of_split(const ordered_json& whole) {
    ordered_json rows = ordered_json::array();
    for (const ordered_json& cells : whole["data"]) {
        ordered_json& row = rows.emplace_back(ordered_json::object());
        for (std::size_t i = 0; i < whole["columns"].size() && i < cells.size(); ++i)
            row[whole["columns"][i].get<std::string>()] = cells[i];
    }
    return rows;
}

// The rows of `whole`, an object that is all of the file; null if it is a row itself.
ordered_json rows_of(const ordered_json& whole, std::string_view file) {
    if (whole.contains("runs")) {
        if (!whole["runs"].is_array()) throw failure("{}: \"runs\" is not an array", file);
        return whole["runs"];
    }
    const auto has_all = [&](const char* key, auto&& is_right) {
        return whole.contains(key) && whole[key].is_array() && std::ranges::all_of(whole[key], is_right);
    };
    const auto is_text = [](const ordered_json& each) { return each.is_string(); };
    const auto is_cells = [](const ordered_json& each) { return each.is_array(); };
    if (has_all("columns", is_text) && has_all("data", is_cells)) return rows_of_split(whole);
    if (const ordered_json* found = only_array(whole)) {
        ordered_json rows = *found;
        for (ordered_json& row : rows)  // what all rows have in common
            for (const auto& [key, value] : whole.items())
                if (&value != found && !row.contains(key)) row[key] = value;
        return rows;
    }
    const auto is_column = [](const ordered_json& member) { return member.is_object() && has_row_numbers(member); };
    const auto is_list = [&](const ordered_json& member) {
        return member.is_array() && member.size() == whole.front().size() && !member.front().is_structured();
    };
    if (all_members(whole, is_column) || all_members(whole, is_list)) return rows_of_columns(whole);
    const auto is_row = [](const ordered_json& member) { return member.is_object(); };
    return all_members(whole, is_row) && has_row_numbers(whole) ? whole : ordered_json{};
}

}  // namespace

Table parse_json_table(std::string_view text, std::string_view file, std::vector<std::string>* bad) {
    Table table{std::string{file}, {}, {}};
    try {
        if (text.starts_with('[')) {
            for (const ordered_json& object : ordered_json::parse(text)) add_object(table, object);
            return table;
        }
        if (const auto whole = ordered_json::parse(text, nullptr, false); whole.is_object())
            if (const ordered_json rows = rows_of(whole, file); !rows.is_null()) {
                for (const ordered_json& object : rows) add_object(table, object);
                return table;
            }
        while (!text.empty()) {
            const std::size_t end = std::min(text.find('\n'), text.size());
            const std::string_view line = text.substr(0, end);
            if (line.find_first_not_of(" \t\r") != line.npos) add_line(table, line, bad);
            text.remove_prefix(std::min(end + 1, text.size()));
        }
    } catch (const nlohmann::json::exception& error) {
        throw failure("{}:{}: not JSON: {}", file, table.rows.size() + 1, error.what());
    }
    return table;
}

}  // namespace tpx::formats
