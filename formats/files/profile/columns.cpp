// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/columns.hpp"

#include "formats/files/profile/column_aliases.hpp"
#include "formats/files/profile/plan_text.hpp"
#include "formats/files/profile/run_cells.hpp"
#include "formats/files/toml_text.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace tpx::formats {
namespace {

// Text, or the text of a number or truth value.
std::string scalar_text(const toml::node& node, std::string_view file) {
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
    if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
    if (const auto truth = node.value_exact<bool>()) return *truth ? "true" : "false";
    throw toml_error(node, file, "text or a number was expected");
}

std::vector<std::string> words_of(std::string text) {
    std::replace(text.begin(), text.end(), ',', ' ');
    std::vector<std::string> words;
    for (std::size_t at = text.find_first_not_of(' '); at != text.npos; at = text.find_first_not_of(' ', at)) {
        const std::size_t end = std::min(text.find(' ', at), text.size());
        words.push_back(text.substr(at, end - at));
        at = end;
    }
    return words;
}

ColumnSource source_of(const toml::node& node, std::string_view file) {
    ColumnSource source;
    const toml::table* table = node.as_table();
    if (!table) {
        source.column = scalar_text(node, file);
        return source;
    }
    for (const auto& [key, value] : *table) {
        if (key == "column") {
            source.column = scalar_text(value, file);
        } else if (key == "value") {
            source.value = scalar_text(value, file);
        } else if (key == "unit") {
            source.unit = scalar_text(value, file);
        } else if (key == "digits") {
            source.digits = words_of(scalar_text(value, file));
        } else if (key == "values" && value.is_table()) {
            for (const auto& [cell, meaning] : *value.as_table())
                source.values[std::string{cell.str()}] = scalar_text(meaning, file);
        } else {
            throw toml_error(value, file, "unknown key '{}'; column, value, unit, digits and values are known",
                             key.str());
        }
    }
    if (source.column.empty() == source.value.empty()) throw toml_error(node, file, "either column or value is needed");
    return source;
}

// Throws Error if the quantity cannot have the unit.
void check_unit(std::string_view quantity, const ColumnSource& source, const toml::node& node, std::string_view file) {
    static const std::map<std::string_view, std::vector<std::string_view>> units{
        {"seconds", {"s", "ms", "us"}},
        {"rate",
         {"samples/s", "steps/s", "steps/min", "tokens/s", "ktokens/s", "samples/s/GPU", "tokens/s/GPU",
          "ktokens/s/GPU", "TFLOP/s", "TFLOP/s/GPU", "hardware TFLOP/s", "hardware TFLOP/s/GPU"}},
        {"tokens_per_second", {"tokens/s", "ktokens/s", "tokens/s/GPU", "ktokens/s/GPU"}}};
    if (source.unit.empty() || quantity == "memory") return;
    const auto known = units.find(quantity);
    if (known == units.end())
        throw toml_error(node, file, "{} has no unit; only seconds, rate, tokens_per_second and memory have one",
                         quantity);
    if (std::ranges::count(known->second, source.unit) == 0)
        throw toml_error(node, file, "unknown unit '{}' of {}; use {}", source.unit, quantity,
                         fmt::join(known->second, ", "));
}

// Whether every cell of a column that is not empty is a plan.
bool has_plans(const Table& table, std::size_t column) {
    const auto is_plan = [&](const Table::Row& row) {
        return cells::is_missing(row.cells[column]) || is_plan_text(row.cells[column]);
    };
    return !table.rows.empty() && std::ranges::all_of(table.rows, is_plan);
}

}  // namespace

const std::vector<std::string>& run_quantities() {
    static const std::vector<std::string> quantities{"plan",
                                                     "dp",
                                                     "tp",
                                                     "pp",
                                                     "cp",
                                                     "vpp",
                                                     "micro_batches",
                                                     "micro_batch",
                                                     "accumulation",
                                                     "recompute",
                                                     "zero",
                                                     "fsdp",
                                                     "offload",
                                                     "sequence",
                                                     "gpus",
                                                     "per_host",
                                                     "placement",
                                                     "batch",
                                                     "seconds",
                                                     "rate",
                                                     "tokens_per_second",
                                                     "memory",
                                                     "cpus",
                                                     "label",
                                                     "model",
                                                     "parameters",
                                                     "gpu",
                                                     "sequence_length",
                                                     "ep",
                                                     "etp",
                                                     "steps",
                                                     "dropped_steps",
                                                     "hosts",
                                                     "status"};
    return quantities;
}

ColumnMap default_columns(const Table& table) {
    ColumnMap map;
    map.is_default = true;
    for (const std::string& column : table.columns)
        if (std::ranges::count(run_quantities(), column) > 0) map.sources[column].column = column;
    const auto has = [&](const char* quantity) { return map.sources.contains(quantity); };
    // Frameworks count floating-point operations differently, so other columns with times take precedence, as
    // allocated resources do over requested ones.
    const auto is_fallback = [](const std::string& column, const ColumnSource& source) {
        return cells::counts_flops(source.unit) || is_requested(column);
    };
    for (const bool fallbacks : {false, true}) {
        for (const std::string& column : table.columns) {
            const auto alias = known_alias(column);
            if (!alias || is_fallback(column, alias->second) != fallbacks) continue;
            const auto times = {"seconds", "rate", "tokens_per_second"};
            const bool timed = std::ranges::count(times, alias->first) > 0 && std::ranges::any_of(times, has);
            if (!timed) map.sources.insert(*alias);  // unless the quantity has a column
        }
    }
    for (std::size_t i = 0; i < table.columns.size() && !has("plan"); ++i)
        if (doubtful_meaning(table.columns[i]) == "plan" && has_plans(table, i))
            map.sources["plan"].column = table.columns[i];
    return map;
}

ColumnMap with_standard_columns(ColumnMap map, const Table& table) {
    const std::map<std::string, ColumnSource> given = map.sources;
    const auto has = [&](const char* quantity) { return given.contains(quantity); };
    for (const std::string& column : table.columns) {
        const auto times = {"seconds", "rate", "tokens_per_second"};
        const bool timed = std::ranges::count(times, column) > 0 && std::ranges::any_of(times, has);
        const bool placed = (column == "placement" && (has("gpus") || has("per_host"))) ||
                            ((column == "gpus" || column == "per_host") && has("placement"));
        const bool used =
            std::ranges::any_of(given, [&](const auto& source) { return source.second.column == column; });
        if (timed || placed || used || has(column.c_str()) || std::ranges::count(map.ignored, column) > 0) continue;
        if (std::ranges::count(run_quantities(), column) > 0) map.sources[column].column = column;
    }
    return map;
}

ColumnMap parse_columns(std::string_view text, std::string_view file) {
    const toml::table root = parse_toml_text(text, file);
    ColumnMap map;
    for (const auto& [key, value] : root) {
        if (key == "where" && value.is_table()) {
            for (const auto& [column, wanted] : *value.as_table())
                map.where.emplace_back(std::string{column.str()}, scalar_text(wanted, file));
        } else if (key == "ignore") {
            map.ignored = words_of(scalar_text(value, file));
        } else if (std::ranges::count(run_quantities(), key.str()) > 0) {
            const ColumnSource& source = map.sources[std::string{key.str()}] = source_of(value, file);
            check_unit(key.str(), source, value, file);
        } else {
            throw toml_error(value, file, "unknown quantity '{}'; where, ignore, {} are known", key.str(),
                             fmt::join(run_quantities(), ", "));
        }
    }
    return map;
}

}  // namespace tpx::formats
