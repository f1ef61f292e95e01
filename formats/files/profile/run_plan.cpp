// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/run_plan.hpp"

#include "formats/files/profile/plan_text.hpp"
#include "formats/files/profile/run_cells.hpp"
#include "lib/core/counted.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>

namespace tpx::formats {
namespace {

// A quantity with its own column: its key in an execution plan, and the conversion of a cell to the value of that key.
struct PlanColumn {
    const char* quantity;
    std::string_view word;
    std::string (*value)(const std::string&);
};

constexpr std::array<PlanColumn, 9> plan_columns{{{"dp", "dp", cells::whole_text},
                                                  {"tp", "tp", cells::whole_text},
                                                  {"pp", "pp", cells::whole_text},
                                                  {"cp", "cp", cells::whole_text},
                                                  {"vpp", "vpp", cells::whole_text},
                                                  {"micro_batches", "mb", cells::whole_text},
                                                  {"accumulation", "ga", cells::whole_text},
                                                  {"recompute", "recompute", cells::recompute_word},
                                                  {"zero", "zero", cells::zero_stage}}};

// ",tp=4" for a column; empty if the row has no value for it.
std::string plan_entry(const RowReader& row, const PlanColumn& column) {
    const auto value = row.read(column.quantity, [&](const std::string& cell) {
        const std::string text = column.value(cell);
        if (text != "*") (void)parse_execution_plan(fmt::format("{}={}", column.word, text));
        return text;
    });
    return value ? fmt::format(",{}={}", column.word, *value) : "";
}

std::string plan_of_row(const RowReader& row) {
    std::string text = plan_text(row.text("plan").value_or(""));
    for (const PlanColumn& column : plan_columns) text += plan_entry(row, column);
    if (const auto shards = row.read("fsdp", cells::whole_text); shards && *shards != "1")
        text += row.text("dp") ? ",zero=3" : fmt::format(",dp={},zero=3", *shards);
    if (row.read("offload", cells::offload_flag).value_or(false)) text += ",offload";
    if (row.read("sequence", cells::flag).value_or(false)) text += ",sp";
    return text;
}

// Replaces "dp=*" by the degree that uses all GPUs, and "ga=*" and "mb=*" by passes of one sample each.
ExecutionPlan complete_plan(std::string text, int gpus, double batch) {
    const auto take = [&](std::string_view word) {
        const std::size_t at = text.find(word);
        if (at == text.npos) return false;
        text.erase(at, word.size());
        return true;
    };
    const bool all = take("dp=*"), singly = take("ga=*"), micro = take("mb=*");
    for (std::size_t at = 0; (at = text.find(",,")) != text.npos;) text.erase(at, 1);
    if (text.ends_with(',')) text.pop_back();
    if (text.starts_with(',')) text.erase(0, 1);
    ExecutionPlan plan = text.empty() ? ExecutionPlan{} : parse_execution_plan(text);
    if (all) {
        if (gpus == 0) throw failure("dp=* needs a placement or a number of GPUs");
        const int others = plan.gpus() / plan.dp;
        if (gpus % others != 0)
            throw failure("{} {} not divisible by {}", counted(std::uint64_t(gpus), "GPU"), gpus == 1 ? "is" : "are",
                          others);
        plan.dp = gpus / others;
    }
    const int local = static_cast<int>(std::ceil(batch / plan.dp));
    if (singly) plan.accumulation = local;
    if (micro) plan.micro_batches = local;
    return plan;
}

// The words of the row's plan. Tables often omit dp.
std::string words_of_row(const RowReader& row, int gpus) {
    std::string words = plan_of_row(row);
    const auto has = [&](std::string_view degree) { return words.find(degree) != words.npos; };
    const bool has_degree = has("tp=") || has("pp=") || has("cp=") || has("zero=");
    if (has_degree && !row.text("plan") && !has("dp=") && gpus > 0) words += ",dp=*";
    return words;
}

// Whether the row has the number of passes or of micro-batches.
bool has_passes(const RowReader& row) {
    const std::string plan = plan_text(row.text("plan").value_or(""));
    return row.text("accumulation") || row.text("micro_batches") || plan.find("ga=") != plan.npos ||
           plan.find("mb=") != plan.npos;
}

// Computes the number of micro-batches of a pipeline, or of passes without one, from the samples of each. With
// `is_given`, the plan has them already, and they must agree; some frameworks count the micro-batches of a pipeline as
// accumulation.
void set_micro_batches(ExecutionPlan& plan, double samples, double batch, bool is_given) {
    const double passes = batch / plan.dp / samples;
    if (passes != std::floor(passes) || passes < 1 || passes > max_samples)
        throw failure("{} sample{} over {} cannot be split into whole micro-batches of {}", batch,
                      batch == 1 ? "" : "s", counted(std::uint64_t(plan.dp), "replica"), samples);
    if (const double given = double(plan.accumulation) * plan.micro_batches; is_given && given != passes)
        throw failure("{} × {} micro-batch{} × {} samples each = {:g} samples per step, but the batch is {:g}",
                      counted(std::uint64_t(plan.dp), "replica"), given, given == 1 ? "" : "es", samples,
                      plan.dp * samples * given, batch);
    if (is_given && (plan.pp == 1 || plan.micro_batches > 1)) return;
    plan.accumulation = 1;
    (plan.pp > 1 ? plan.micro_batches : plan.accumulation) = static_cast<int>(passes);
}

}  // namespace

std::optional<double> batch_of_passes(const RowReader& row, int gpus) {
    const auto samples = row.read("micro_batch", cells::positive);
    const bool has_stars =
        plan_of_row(row).find("a=*") != std::string::npos || plan_of_row(row).find("mb=*") != std::string::npos;
    if (!samples || !has_passes(row) || has_stars) return std::nullopt;
    const ExecutionPlan plan = row.in_cell("plan", [&] { return complete_plan(words_of_row(row, gpus), gpus, 1); });
    return plan.dp * *samples * plan.accumulation * plan.micro_batches;
}

ExecutionPlan plan_of(const RowReader& row, int gpus, double batch) {
    const std::string words = words_of_row(row, gpus);
    ExecutionPlan plan = row.in_cell("plan", [&] { return complete_plan(words, gpus, batch); });
    if (const auto samples = row.read("micro_batch", cells::positive))
        row.in_cell("micro_batch", [&] { set_micro_batches(plan, *samples, batch, has_passes(row)); });
    row.in_cell("plan", [&] {
        if (plan.dp > batch)
            throw failure("{} replicas cannot share {} sample{}", plan.dp, batch, batch == 1 ? "" : "s");
    });
    return plan;
}

}  // namespace tpx::formats
