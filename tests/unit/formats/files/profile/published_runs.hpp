// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/table.hpp"
#include "lib/core/units.hpp"
#include "lib/model/run.hpp"

#include <algorithm>

namespace tpx {

/// The sizes of an MPT model, by its name in testdata/profile/llm-foundry.
struct MptShape {
    const char* name;
    int layers;
    double hidden, heads;
};
inline constexpr MptShape mpt_shapes[] = {{"125m", 12, 768, 12}, {"350m", 24, 1024, 16}, {"760m", 24, 1536, 12},
                                          {"1b", 24, 2048, 16},  {"3b", 32, 2560, 20},   {"7b", 32, 4096, 32},
                                          {"13b", 40, 5120, 40}, {"30b", 48, 7168, 56},  {"70b", 80, 8192, 64}};

inline ModelSize gpt_model(int layers, double hidden, double heads, double vocabulary, double sequence) {
    ModelSize model;
    model.layers = layers;
    model.hidden = hidden;
    model.heads = heads;
    model.vocabulary = vocabulary;
    model.sequence = sequence;
    model.parameters = layers * 12 * hidden * hidden + vocabulary * hidden;
    return model;
}

inline ModelSize mpt_model(const MptShape& shape, double sequence) {
    ModelSize model = gpt_model(shape.layers, shape.hidden, shape.heads, 50368, sequence);
    model.flash_attention = true;
    return model;
}

inline double number_in(const formats::Table& table, const formats::Table::Row& row, std::string_view column) {
    return formats::parse_number(row.cells[table.find(column)]);
}

/// The model of a row of testdata/profile/bigscience/memory.csv.
inline ModelSize bigscience_model(const formats::Table& table, const formats::Table::Row& row) {
    const auto number = [&](std::string_view column) { return number_in(table, row, column); };
    ModelSize model = gpt_model(static_cast<int>(number("layers")), number("hidden"), number("heads"), 250880, 2048);
    model.gradient_bytes = number("gradient_bytes");
    return model;
}

/// Its run, on hosts of 8 GPUs and 4 NICs: without memory if it did not fit, with 0 seconds if the time was not
/// published.
inline Run bigscience_run(const formats::Table& table, const formats::Table::Row& row) {
    const auto number = [&](std::string_view column) { return number_in(table, row, column); };
    const auto whole = [&](std::string_view column) { return static_cast<int>(number(column)); };
    Run run;
    run.plan.dp = whole("dp");
    run.plan.tp = whole("tp");
    run.plan.pp = whole("pp");
    run.plan.zero = whole("zero");
    run.plan.recompute = Recompute::full;
    const int passes = whole("batch") / run.plan.dp / whole("micro_batch");
    (run.plan.pp > 1 ? run.plan.micro_batches : run.plan.accumulation) = passes;
    run.batch = run.plan.dp * passes * number("micro_batch");
    for (int left = run.plan.gpus(); left > 0; left -= 8) run.allocation.gpus.push_back(std::min(left, 8));
    run.allocation.gpus_per_nic = 2;
    const std::string &memory = row.cells[table.find("memory")], &seconds = row.cells[table.find("seconds")];
    if (memory != "OOM") run.memory = static_cast<double>(parse_bytes(memory));
    if (!seconds.empty()) run.seconds = formats::parse_number(seconds);
    return run;
}

}  // namespace tpx
