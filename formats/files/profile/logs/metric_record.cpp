// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/metric_record.hpp"

#include "formats/settings/bare_floats.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace tpx::formats {
namespace {

using nlohmann::json;

constexpr int deepest = 4;

void add_members(const json& object, const std::string& prefix, int depth, MetricRecord& record) {
    for (const auto& [name, value] : object.items()) {
        if (value.is_object() && depth < deepest) add_members(value, prefix + name + "/", depth + 1, record);
        const std::string full{metric_name(prefix + name)};
        if (value.is_string()) record.add(full, value.get<std::string>());
        if (value.is_number()) record.add(full, value.dump());
    }
}

}  // namespace

const std::string* MetricRecord::find(std::string_view name) const {
    const auto found = std::ranges::find(values_, name, &std::pair<std::string, std::string>::first);
    return found == values_.end() ? nullptr : &found->second;
}

std::optional<double> MetricRecord::number(std::string_view name) const {
    const std::string* text = find(name);
    if (!text || text->empty()) return std::nullopt;
    double value = 0;
    const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
    const bool is_whole_text = code == std::errc{} && end == text->data() + text->size();
    return is_whole_text && std::isfinite(value) && value >= 0 ? std::optional{value} : std::nullopt;
}

std::string MetricRecord::text(std::string_view name) const {
    const std::string* text = find(name);
    return text ? *text : std::string{};
}

std::string_view metric_name(std::string_view name) {
    if (const std::size_t dash = name.rfind(" - "); dash != name.npos) name.remove_prefix(dash + 3);
    for (const std::string_view prefix : {"train/", "training/", "train|"})
        if (name.starts_with(prefix)) return name.substr(prefix.size());
    return name;
}

bool is_trainer_state(std::string_view line) {
    return line.starts_with('{') && line.find("\"log_history\"") != line.npos;
}

std::optional<MetricRecord> json_record(std::string_view line) {
    if (!line.starts_with('{') || !line.ends_with('}')) return std::nullopt;
    const json object = json::parse(strict_json(line), nullptr, false);
    if (!object.is_object()) return std::nullopt;
    MetricRecord record;
    add_members(object, "", 0, record);
    return record;
}

std::vector<std::string> csv_cells(std::string_view line, char separator) {
    std::vector<std::string> cells(1);
    bool is_quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const bool is_quote = line[i] == '"';
        if (is_quote && is_quoted && line.substr(i + 1, 1) == "\"")
            cells.back() += line[++i];
        else if (is_quote)
            is_quoted = !is_quoted;
        else if (line[i] == separator && !is_quoted)
            cells.emplace_back();
        else
            cells.back() += line[i];
    }
    return cells;
}

}  // namespace tpx::formats
