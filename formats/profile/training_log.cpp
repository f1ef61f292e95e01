// SPDX-License-Identifier: Apache-2.0
#include "formats/profile/training_log.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

namespace tpx::formats {
namespace {

// The number that begins behind `mark` in `line`, thousands separated by commas or not.
std::optional<double> number_after(std::string_view line, std::string_view mark) {
    const std::size_t at = line.find(mark);
    if (at == line.npos) return std::nullopt;
    line.remove_prefix(at + mark.size());
    line.remove_prefix(std::min(line.find_first_not_of(" ."), line.size()));
    std::string digits;
    for (const char c : line.substr(0, 40)) {
        if (c == ',') continue;
        if ((c < '0' || c > '9') && c != '.') break;
        digits += c;
    }
    double value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return code == std::errc{} && std::isfinite(value) ? std::optional{value} : std::nullopt;
}

// The number that ends right before `unit`: "1.23s/it".
std::optional<double> number_before(std::string_view line, std::string_view unit) {
    const std::size_t at = line.find(unit);
    if (at == line.npos) return std::nullopt;
    std::size_t begin = at;
    while (begin > 0 && (line[begin - 1] == '.' || (line[begin - 1] >= '0' && line[begin - 1] <= '9'))) --begin;
    double value = 0;
    const auto [end, code] = std::from_chars(line.data() + begin, line.data() + at, value);
    return code == std::errc{} && value > 0 ? std::optional{value} : std::nullopt;
}

// Megatron-LM lists its arguments as "  tensor_model_parallel_size ...................... 2".
struct Argument {
    std::string_view name;
    std::string_view quantity;
};
constexpr std::array<Argument, 9> arguments{{{"tensor_model_parallel_size", "tp"},
                                             {"pipeline_model_parallel_size", "pp"},
                                             {"context_parallel_size", "cp"},
                                             {"data_parallel_size", "dp"},
                                             {"world_size", "gpus"},
                                             {"global_batch_size", "batch"},
                                             {"micro_batch_size", "micro"},
                                             {"use_distributed_optimizer", "zero"},
                                             {"recompute_granularity", "recompute"}}};

class LogReader {
public:
    void read(std::string_view line) {
        for (const Argument& argument : arguments) note_argument(line, argument);
        if (const auto ms = number_after(line, "elapsed time per iteration (ms):"))
            steps_.push_back(*ms / 1e3);
        else if (const auto seconds = number_before(line, "s/it"))
            steps_.push_back(*seconds);
        else if (const auto rate = number_before(line, "it/s"))
            steps_.push_back(1 / *rate);
    }

    Table table(std::string_view file) {
        if (steps_.size() < 3)
            throw failure("{}: {} steps with times are in it; at least 3 are needed", file, steps_.size());
        steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(warm_up()));
        const auto middle = steps_.begin() + static_cast<std::ptrdiff_t>(steps_.size() / 2);
        std::ranges::nth_element(steps_, middle);
        Table table{std::string{file}, {}, {{1, {}}}};
        const auto add = [&](std::string_view column, std::string cell) {
            table.columns.emplace_back(column);
            table.rows[0].cells.push_back(std::move(cell));
        };
        add_micro_batches();
        for (const auto& [quantity, value] : values_)
            if (quantity != "micro") add(quantity, value);
        add("seconds", fmt::format("{:g}", *middle));
        return table;
    }

private:
    std::size_t warm_up() const { return std::min(std::max<std::size_t>(2, steps_.size() / 10), steps_.size() - 1); }

    void note_argument(std::string_view line, const Argument& argument) {
        const std::size_t at = line.find(argument.name);
        if (at == line.npos || line.substr(0, at).find_first_not_of(" 0123456789:[]") != line.npos) return;
        const std::string_view rest = line.substr(at + argument.name.size());
        if (!rest.starts_with(" .")) return;
        const std::size_t value = rest.find_first_not_of(" .");
        if (value == rest.npos) return;
        const std::string_view text = rest.substr(value, rest.find_last_not_of(" \r") + 1 - value);
        const std::string quantity{argument.quantity};
        if (text == "True" || text == "False") {
            if (text == "True") values_.insert_or_assign(quantity, std::string(1, '1'));
        } else if (text != "None") {
            values_[quantity] = text;
        }
    }

    // Samples of a replica are cut into micro-batches: for the pipeline, or gathered where there is none.
    void add_micro_batches() {
        const auto value = [&](const char* name) {
            const auto found = values_.find(name);
            double number = 1;
            if (found != values_.end())
                std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
            return std::max(number, 1.0);
        };
        if (!values_.contains("micro") || !values_.contains("batch")) return;
        const double count = value("batch") / value("dp") / value("micro");
        if (count > 1) values_[value("pp") > 1 ? "micro_batches" : "accumulation"] = fmt::format("{:.0f}", count);
    }

    std::vector<double> steps_;
    std::map<std::string, std::string> values_;
};

}  // namespace

Table parse_training_log(std::string_view text, std::string_view file) {
    LogReader reader;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find_first_of("\n\r"), text.size());  // progress bars end lines with \r
        reader.read(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return reader.table(file);
}

}  // namespace tpx::formats
