// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/runs_file.hpp"
#include "formats/files/profile/throughput_file.hpp"
#include "lib/core/file.hpp"
#include "lib/model/hold_out.hpp"
#include "tests/unit/formats/files/profile/published_runs.hpp"

#include <string>
#include <vector>

namespace tpx::test {

/// The measured runs of one model on one cluster.
struct MeasuredTable {
    std::string name;
    formats::ThroughputModel model;
    std::vector<Run> runs;
    Belief prior;
};

/// A table of testdata/profile/rubick: 8 A800 per host.
inline MeasuredTable rubick_table(const std::string& name) {
    const std::string folder = "testdata/profile/rubick/";
    MeasuredTable result{name, formats::read_throughput_model(folder + name + ".toml"), {}, {}};
    const formats::Table table = formats::parse_table(read_file(folder + name + ".csv"), name + ".csv");
    const std::string columns = folder + (name == "llama7" ? "columns-llama7.toml" : "columns.toml");
    result.runs = formats::read_runs(table, formats::parse_columns(read_file(columns), columns),
                                     {result.model.batch, result.model.gpus_per_nic, result.model.cpus});
    result.prior = formats::belief_before(result.model);
    return result;
}

/// BERT-base on T4, of testdata/profile/pollux.
inline MeasuredTable t4_table() {
    const std::string folder = "testdata/profile/pollux/";
    MeasuredTable result{"T4", formats::read_throughput_model(folder + "bert.toml"), {}, {}};
    const formats::Table table = formats::parse_table(read_file(folder + "bert.csv"), "bert.csv");
    result.runs = formats::read_runs(table, formats::default_columns(table),
                                     {result.model.batch, result.model.gpus_per_nic, result.model.cpus});
    result.prior = formats::belief_before(result.model);
    return result;
}

/// 181 billion parameters on 384 A100, of testdata/profile/bigscience.
inline MeasuredTable bigscience_table() {
    MeasuredTable result{"384 A100", {}, {}, {}};
    const formats::Table table =
        formats::parse_table(read_file("testdata/profile/bigscience/memory.csv"), "memory.csv");
    for (const formats::Table::Row& row : table.rows) {
        const ModelSize size = bigscience_model(table, row);
        const Run run = bigscience_run(table, row);
        if (size.layers != 72 || size.hidden != 14336 || size.heads != 64 || run.seconds == 0) continue;
        result.model.size = size;
        result.runs.push_back(run);
    }
    result.model.nic = 12.5e9;
    result.prior = formats::belief_before(result.model);
    return result;
}

/// MPT under FSDP on A100 and H100, of testdata/profile/llm-foundry: models and GPUs with enough runs to hold some out.
/// Samples per second are whole numbers in the table; small ones are too coarse.
inline std::vector<MeasuredTable> mpt_tables(std::size_t least_runs) {
    const std::string folder = "testdata/profile/llm-foundry/";
    formats::Table table = formats::parse_table(read_file(folder + "throughput.csv"), "throughput.csv");
    std::erase_if(table.rows, [&](const auto& row) { return number_in(table, row, "Throughput (S/s)") < 8; });
    formats::ColumnMap columns = formats::parse_columns(read_file(folder + "columns.toml"), "columns.toml");
    std::vector<MeasuredTable> tables;
    for (const MptShape& shape : mpt_shapes)
        for (const char* gpu : {"a100_40gb", "a100_80gb", "h100_80gb"}) {
            columns.where = {{"Model", shape.name}, {"GPU", gpu}, {"SeqLen (T)", "2048"}};
            MeasuredTable result{std::string{"MPT-"} + shape.name + " " + gpu, {}, {}, {}};
            result.model.size = mpt_model(shape, 2048);
            result.model.nic = 25e9;
            result.runs = formats::read_runs(table, columns, {std::nullopt, 1, 8});
            result.prior = formats::belief_before(result.model);
            if (result.runs.size() >= least_runs) tables.push_back(std::move(result));
        }
    return tables;
}

}  // namespace tpx::test
