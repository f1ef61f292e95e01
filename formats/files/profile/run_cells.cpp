// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/run_cells.hpp"

#include "formats/files/profile/table.hpp"
#include "lib/core/error.hpp"
#include "lib/core/lower_case.hpp"
#include "lib/core/units.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace tpx::formats::cells {

std::optional<bool> truth(std::string_view text) {
    // Also as German and French spreadsheets write them.
    constexpr std::array<std::string_view, 12> yes{"1",  "1.0",     "true", "t",  "yes",  "y",
                                                   "on", "enabled", "wahr", "ja", "vrai", "oui"};
    constexpr std::array<std::string_view, 13> no{"0",        "0.0",  "false",  "f",    "no",   "n",  "off",
                                                  "disabled", "none", "falsch", "nein", "faux", "non"};
    const std::string word = lower_case(text);
    if (std::ranges::count(yes, word) > 0) return true;
    if (std::ranges::count(no, word) > 0) return false;
    return std::nullopt;
}

bool flag(std::string_view text) {
    const auto value = truth(text);
    if (!value) throw failure("'{}' is neither true nor false", text);
    return *value;
}

bool offload_flag(std::string_view text) {
    if (lower_case(text) == "cpu") return true;
    const auto value = truth(text);
    if (!value) throw failure("'{}' is not true, false or cpu", text);
    return *value;
}

std::string whole_text(const std::string& text) {
    if (text == "*") return text;
    const double value = parse_number(text);
    if (value != std::floor(value) || std::abs(value) > 1e9) throw failure("'{}' is not a whole number", text);
    return fmt::format("{:.0f}", value);
}

std::string zero_stage(const std::string& text) {
    const std::string word = lower_case(text);
    const std::size_t at = word.find_first_of("0123456789");
    if (at == word.npos) throw failure("unknown ZeRO stage '{}'; use 0 to 3", text);
    std::string before = word.substr(0, at);
    std::erase_if(before, [](char c) { return c == '-' || c == '_' || c == ' '; });
    if (!before.empty() && before != "zero" && before != "stage" && before != "zerostage")
        throw failure("unknown ZeRO stage '{}'; use 0 to 3", text);
    return whole_text(word.substr(at));
}

double positive(std::string_view text) {
    const double value = parse_number(text);
    if (value <= 0) throw failure("{} is not positive", text);
    return value;
}

namespace {

// First words of cells about a run that failed, such as "OOM (80GB)" or "CANCELLED by 1000".
constexpr std::array<std::string_view, 25> failures{
    "fail",    "failed",    "failure",  "failures",    "error",
    "errors",  "err",       "timeout",  "killed",      "crash",
    "crashed", "aborted",   "canceled", "cancelled",   "evicted",
    "revoked", "preempted", "dnf",      "deadline",    "oom",
    "oomed",   "oomkilled", "diverged", "outofmemory", "outofmemoryerror"};

// Such cells as a whole.
constexpr std::array<std::string_view, 5> failure_words{"skipped", "hang", "hung", "incomplete", "failed at"};

// Beginnings of such cells; "out of me" is what sacct shows of OUT_OF_MEMORY.
constexpr std::array<std::string_view, 12> failure_starts{
    "node fail", "boot fail", "did not run",        "did not fit",  "does not fit", "not run",
    "cuda oom",  "out of me", "cuda out of memory", "nccl timeout", "cuda error",   "nccl error"};

// "out of memory" for "OUT_OF_MEMORY", as Slurm writes it; without the marks before "**OOM**" and "(OOM)".
std::string status_words(std::string_view text) {
    std::string words = lower_case(text);
    std::ranges::replace(words, '_', ' ');
    std::ranges::replace(words, '-', ' ');
    const auto is_mark = [](char c) { return c == '*' || c == '(' || c == ' '; };
    words.erase(words.begin(), std::ranges::find_if_not(words, is_mark));
    return words;
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Whether the cell begins with a word for failures and is not negated, as in "error-free" or "OOM: no".
bool begins_with_failure(std::string_view words) {
    constexpr std::array<std::string_view, 5> denials{"free", "no", "none", "0", "false"};
    const auto take = [&](auto&& belongs) {
        const auto end = std::ranges::find_if_not(words, belongs);
        const std::string_view taken{words.begin(), end};
        words.remove_prefix(taken.size());
        return taken;
    };
    const std::string_view first = take(is_letter);
    take([](char c) { return c == ' ' || c == ':' || c == '='; });
    const std::string_view second = take([](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; });
    return std::ranges::count(failures, first) > 0 && std::ranges::count(denials, second) == 0;
}

// Whether the run went on after a failure.
bool has_recovered(std::string_view words) {
    return std::ranges::any_of(std::array{"resumed", "completed", "recovered", "finished", "succeeded"},
                               [&](const char* word) { return words.find(word) != words.npos; });
}

}  // namespace

bool has_failed(std::string_view status) {
    const std::string words = status_words(status);
    const auto begins = [&](std::string_view start) { return words.starts_with(start); };
    if (has_recovered(words)) return false;
    return std::ranges::count(failure_words, words) > 0 ||
           std::ranges::any_of(std::array{"\xE2\x9C\x97", "\xE2\x9C\x98", "\xE2\x9D\x8C"}, begins) ||
           std::ranges::any_of(failure_starts, begins) || begins_with_failure(words);
}

bool lacks_number(std::string text) {
    constexpr std::array<std::string_view, 19> words{
        "",     "-", "--", "\xE2\x80\x93", "\xE2\x80\x94", "/",   "n/a",    "#n/a", "n.a.", "na", "nan", "none",
        "null", "x", "?",  "inf",          "infinity",     "tbd", "#div/0!"};
    if (const auto value = finite_number(text)) return *value == 0;
    return std::ranges::count(words, lower_case(text)) > 0 || has_failed(text);
}

bool is_missing(std::string text) {
    constexpr std::array<std::string_view, 13> words{"",     "-",  "--",  "\xE2\x80\x93", "\xE2\x80\x94", "n/a", "#n/a",
                                                     "n.a.", "na", "nan", "none",         "null",         "?"};
    text = lower_case(text);
    return std::ranges::count(words, text) > 0;
}

double seconds_in(std::string_view unit, double time) {
    if (unit.empty() || unit == "s") return time;
    if (unit == "ms") return time / 1e3;
    if (unit == "us") return time / 1e6;
    throw failure("unknown unit '{}'; use s, ms or us", unit);
}

namespace {

// Units of the time of a step.
constexpr std::pair<std::string_view, std::string_view> time_units[] = {
    {"", ""},          {"s", "s"},          {"sec", "s"},    {"secs", "s"},          {"seconds", "s"},
    {"s/it", "s"},     {"s/iter", "s"},     {"s/step", "s"}, {"sec/it", "s"},        {"sec/iter", "s"},
    {"sec/step", "s"}, {"s per step", "s"}, {"ms", "ms"},    {"milliseconds", "ms"}, {"ms/it", "ms"},
    {"ms/iter", "ms"}, {"ms/step", "ms"},   {"us", "us"},    {"\xC2\xB5s", "us"},    {"\xCE\xBCs", "us"}};

}  // namespace

MeasuredTime measured_time(std::string_view text) {
    constexpr std::string_view number_characters = "0123456789.";
    const std::string_view number = text.substr(0, std::min(text.find_first_not_of(number_characters), text.size()));
    std::string_view rest = text.substr(number.size());
    const auto skip = [&] { rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size())); };
    skip();
    for (const std::string_view sign : {"\xC2\xB1", "+/-", "+-"}) {  // the spread, as in "0.52 ± 0.01"
        if (!rest.starts_with(sign)) continue;
        rest.remove_prefix(sign.size());
        skip();
        rest.remove_prefix(std::min(rest.find_first_not_of(number_characters), rest.size()));
        skip();
    }
    const auto* unit = std::ranges::find(time_units, rest, &std::pair<std::string_view, std::string_view>::first);
    if (number.empty() || unit == std::end(time_units)) return {positive(text), ""};  // such as 1e-3; throws for words
    return {positive(number), std::string{unit->second}};
}

namespace {

constexpr std::string_view flops_unit = "TFLOP/s", hardware_prefix = "hardware ";

// FLOPs of a step: three times those of the forward pass, or four times if layers are recomputed and `unit` counts
// that.
double flops_of(std::string_view unit, const StepSize& step) {
    if (step.flops <= 0)
        throw failure("TFLOP/s need the model's sizes: parameters, layers, hidden and sequence (tokens per sample)");
    const bool counts_recomputation = unit.starts_with(hardware_prefix) && step.recomputes;
    return step.batch * step.flops * (counts_recomputation ? 4.0 / 3 : 1);
}

}  // namespace

bool counts_flops(std::string_view unit) { return unit.find(flops_unit) != unit.npos; }

double seconds_at(std::string_view unit, double rate, const StepSize& step) {
    constexpr std::string_view per_gpu = "/GPU";
    const bool is_per_gpu = unit.ends_with(per_gpu) || unit.ends_with("/gpu");
    if (is_per_gpu) unit.remove_suffix(per_gpu.size());
    const double total = is_per_gpu ? rate * step.gpus : rate;
    if (unit.empty() || unit == "samples/s") return step.batch / total;
    if (unit == "steps/s" && !is_per_gpu) return 1 / rate;
    if (unit == "steps/min" && !is_per_gpu) return 60 / rate;
    if (unit == "steps/h" && !is_per_gpu) return 3600 / rate;
    if (unit == flops_unit || (unit.starts_with(hardware_prefix) && unit.ends_with(flops_unit)))
        return flops_of(unit, step) / (total * 1e12);
    const double tokens = unit == "ktokens/s" ? 1000 : 1;
    if (unit != "tokens/s" && tokens == 1)
        throw failure(
            "unknown unit '{}'; use samples/s, steps/s, steps/min, steps/h, tokens/s, ktokens/s, TFLOP/s or hardware "
            "TFLOP/s, followed by /GPU if the rate is that of one GPU",
            unit);
    if (step.sequence <= 0) throw failure("tokens per second need the model's sequence length (sequence)");
    return step.batch * step.sequence / (total * tokens);
}

std::string recompute_word(const std::string& cell) {
    if (const auto value = truth(cell)) return *value ? "full" : "none";
    std::string word = lower_case(cell);
    if (word != "selective" && word != "full")
        throw failure("unknown recomputation '{}'; use none, selective or full", cell);
    return word;
}

bool is_gpu_memory(double bytes) { return bytes >= 1e6 && bytes <= 1e13; }

double gpu_bytes(std::string text, const std::string& unit) {
    if (!text.empty() && std::isdigit(static_cast<unsigned char>(text.back())) != 0) text += unit;
    const auto bytes = static_cast<double>(parse_bytes(text));
    if (!is_gpu_memory(bytes)) throw failure("{:g} bytes of GPU memory cannot be right; check the unit", bytes);
    return bytes;
}

}  // namespace tpx::formats::cells
