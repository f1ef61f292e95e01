// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {

/// The metrics that a tracker records at one time.
class MetricRecord {
public:
    void add(std::string name, std::string value) { values_.emplace_back(std::move(name), std::move(value)); }
    bool has(std::string_view name) const { return find(name) != nullptr; }
    /// The value of `name` if it is a finite number of at least 0.
    std::optional<double> number(std::string_view name) const;
    /// The value of `name`; empty if the record does not have it.
    std::string text(std::string_view name) const;
    /// Names and values, in the order in which they were added.
    const std::vector<std::pair<std::string, std::string>>& values() const { return values_; }

private:
    const std::string* find(std::string_view name) const;

    std::vector<std::pair<std::string, std::string>> values_;
};

/// `name` without what loggers put before it: "train/", "training/", "train|", or the "RUN - " of columns that W&B
/// exports.
std::string_view metric_name(std::string_view name);

/// Whether `line` is a trainer_state.json of Hugging Face's Trainer without line breaks.
bool is_trainer_state(std::string_view line);

/// The record of a line of JSON, whose numbers may be NaN or Infinity; objects inside are joined as "group/name".
/// Nothing if `line` is not a JSON object.
std::optional<MetricRecord> json_record(std::string_view line);

/// The cells of a line of CSV, without quotes. A quoted cell must end on the same line.
std::vector<std::string> csv_cells(std::string_view line, char separator = ',');

}  // namespace tpx::formats
