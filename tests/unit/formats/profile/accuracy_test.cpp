// SPDX-License-Identifier: Apache-2.0
// How well the throughput model predicts measured times it has not seen: testdata/profile/rubick.
#include "formats/profile/runs_file.hpp"
#include "formats/profile/throughput_file.hpp"
#include "lib/core/file.hpp"
#include "lib/model/hold_out.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

using namespace tpx;
using namespace tpx::formats;

namespace {

constexpr int training_rows = 9;
const std::string folder = "testdata/profile/rubick/";

struct Measured {
    ThroughputModel model;
    std::vector<Run> runs;
    Belief prior;
};

Measured measured(const std::string& name) {
    Measured result{read_throughput_model(folder + name + ".toml"), {}, {}};
    const Table table = parse_table(read_file(folder + name + ".csv"), name + ".csv");
    const std::string columns = folder + (name == "llama7" ? "columns-llama7.toml" : "columns.toml");
    result.runs = read_runs(table, parse_columns(read_file(columns), columns),
                            {result.model.batch, result.model.gpus_per_nic, result.model.cpus});
    // On one GPU, RoBERTa without recomputation ran half of the batch: it takes as long as on two (0.7054 and 0.7052
    // s).
    if (name == "roberta")
        std::erase_if(result.runs,
                      [](const Run& run) { return run.plan.dp == 1 && run.plan.recompute == Recompute::none; });
    result.prior = belief_before(result.model);
    return result;
}

// Mean and largest relative error inside one host, and across hosts.
struct Errors {
    double inside = 0, across = 0, worst = 0;
    int inside_count = 0, across_count = 0;

    void add(const Measured& table, const HeldOut& held_out) {
        for (std::size_t i = 0; i < held_out.test.size(); ++i) {
            const double error = std::abs(held_out.errors[i]);
            const bool one = table.runs[held_out.test[i]].allocation.gpus.size() == 1;
            (one ? inside : across) += error;
            ++(one ? inside_count : across_count);
            worst = std::max(worst, error);
        }
    }
    double mean_inside() const { return inside_count > 0 ? inside / inside_count : 0; }
    double mean_across() const { return across_count > 0 ? across / across_count : 0; }
};

// The target for each model, in percent: one host, across hosts; 0 where the table has no such rows to spare.
struct Target {
    const char* name;
    double inside, across;
};

// The targets are 5 % and 7 %, and 3 % for LLaMA-7B, whose rows across hosts are all 3D. ViT waits for its loader: its
// times on several hosts follow no plan.
constexpr Target targets[] = {{"gpt2", 5, 7},    {"t5", 5, 7},     {"bert", 5, 7},
                              {"roberta", 5, 7}, {"llama7", 5, 3}, {"llama30", 0, 7}};

void check(const Target& target, const Errors& errors) {
    MESSAGE(std::string{target.name}, ": one host ", 100 * errors.mean_inside(), " % of ", errors.inside_count,
            ", across hosts ", 100 * errors.mean_across(), " % of ", errors.across_count, ", worst ",
            100 * errors.worst);
    CHECK(errors.mean_inside() <= target.inside / 100);
    CHECK(errors.mean_across() <= target.across / 100);
}

// Measured seconds of the plan that the model chooses on each placement over those of the best one there, minus 1.
struct Regret {
    double sum = 0;
    int choices = 0, best = 0;

    void add(const Measured& table, const Parameters& parameters) {
        std::map<std::vector<int>, std::vector<const Run*>> placements;
        for (const Run& run : table.runs) placements[run.allocation.gpus].push_back(&run);
        for (const auto& [gpus, runs] : placements) {
            if (runs.size() < 2) continue;
            const auto predicted = [&](const Run* run) {
                return predicted_seconds(parameters, table.model.size, *run);
            };
            const Run* chosen = *std::ranges::min_element(runs, {}, predicted);
            const Run* fastest = *std::ranges::min_element(runs, {}, [](const Run* run) { return run->seconds; });
            sum += chosen->seconds / fastest->seconds - 1;
            best += chosen == fastest;
            ++choices;
        }
    }
};

Fit fit_of(const Measured& table, const HeldOut& held_out) {
    std::vector<Run> training;
    for (const std::size_t i : held_out.train) training.push_back(table.runs[i]);
    return fit_parameters(table.model.size, training, table.prior);
}

HeldOut held_out(const Measured& table, std::optional<unsigned> draw = {}) {
    return hold_out(table.model.size, table.runs, table.prior, training_rows, draw);
}

}  // namespace

TEST_CASE("the nine runs that --suggest names predict the others within 5 % on one host and 7 % across hosts") {
    for (const Target& target : targets) {
        const Measured table = measured(target.name);
        const HeldOut split = held_out(table);
        CHECK(split.train.size() == training_rows);
        CHECK(split.train.size() + split.test.size() == table.runs.size());
        Errors errors;
        errors.add(table, split);
        check(target, errors);
    }
}

TEST_CASE("so they do on average where the first one is drawn, fifty times") {
    for (const Target& target : targets) {
        const Measured table = measured(target.name);
        Errors errors;
        for (unsigned draw = 1; draw <= 50; ++draw) errors.add(table, held_out(table, draw));
        check(target, errors);
    }
}

TEST_CASE("a placement that no fitted run was on is predicted") {
    for (const Target& target : targets) {
        const Measured table = measured(target.name);
        const auto hosts = [&](std::size_t run) {
            std::vector<int> gpus = table.runs[run].allocation.gpus;
            std::ranges::sort(gpus);
            return gpus;
        };
        Errors errors;
        for (const HeldOut& left : leave_one_placement_out(table.model.size, table.runs, table.prior, training_rows)) {
            for (const std::size_t i : left.train)
                for (const std::size_t j : left.test) CHECK(hosts(i) != hosts(j));
            errors.add(table, left);
        }
        check(target, errors);
    }
}

TEST_CASE("the plan that is chosen takes within 1 % of the best one") {
    Regret regret;
    for (const Target& target : targets) {
        const Measured table = measured(target.name);
        for (unsigned draw = 1; draw <= 10; ++draw) regret.add(table, fit_of(table, held_out(table, draw)).parameters);
    }
    MESSAGE(regret.choices, " placements, the best plan chosen on ", regret.best, ", mean regret ",
            regret.sum / regret.choices);
    CHECK(regret.choices > 600);
    CHECK(regret.sum / regret.choices <= 0.01);
}

// What was measured of LLaMA-7B with 16 samples a step, in micro-batches of one. Without the offloaded runs, which were
// made in another way: two of them take 16 samples in little more time than the other table says for 8.
std::vector<Run> sixteen_samples() {
    Table table = parse_table(read_file(folder + "llama7-16.csv"), "llama7-16.csv");
    const std::size_t plan = table.find("exec_plan"), seconds = table.find("iter_time");
    std::erase_if(table.rows, [&](const Table::Row& row) {
        return row.cells[seconds] == "0" || row.cells[plan].starts_with("zero-offload");
    });
    const std::string columns = folder + "columns.toml";
    std::vector<Run> runs = read_runs(table, parse_columns(read_file(columns), columns), {16, 2, 4});
    for (Run& run : runs) (run.plan.pp > 1 ? run.plan.micro_batches : run.plan.accumulation) = 16 / run.plan.dp;
    return runs;
}

// The run of `runs` on `gpus` that takes least by `seconds_of`.
template <class Seconds>
const Run& fastest_on(const std::vector<int>& gpus, const std::vector<Run>& runs, Seconds&& seconds_of) {
    const Run* fastest = nullptr;
    for (const Run& run : runs)
        if (run.allocation.gpus == gpus && (!fastest || seconds_of(run) < seconds_of(*fastest))) fastest = &run;
    REQUIRE(fastest);
    return *fastest;
}

TEST_CASE("LLaMA-7B: the best plan is chosen on one host of 4, on 4 of 4 and on 4 of 8, with 8 and 16 samples") {
    const Measured table = measured("llama7");
    const Parameters parameters = fit_of(table, held_out(table)).parameters;
    const auto predicted = [&](const Run& run) { return predicted_seconds(parameters, table.model.size, run); };
    const auto took = [](const Run& run) { return run.seconds; };
    const std::vector<Run> sixteen = sixteen_samples();
    CHECK(sixteen.size() == 13);
    for (const std::vector<int>& gpus : {std::vector<int>(4, 4), std::vector<int>(4, 8)}) {
        CHECK(&fastest_on(gpus, table.runs, predicted) == &fastest_on(gpus, table.runs, took));
        CHECK(&fastest_on(gpus, sixteen, predicted) == &fastest_on(gpus, sixteen, took));
    }
    CHECK(&fastest_on({4}, sixteen, predicted) == &fastest_on({4}, sixteen, took));
}

TEST_CASE("nine runs of 8 samples in one batch predict those of 16 in micro-batches") {
    const Measured table = measured("llama7");
    const Parameters parameters = fit_of(table, held_out(table)).parameters;
    std::vector<double> errors;
    for (const Run& run : sixteen_samples())
        errors.push_back(predicted_seconds(parameters, table.model.size, run) / run.seconds - 1);
    const auto magnitude = [](double error) { return std::abs(error); };
    MESSAGE("16 samples: ", 100 * mean_magnitude(errors), " % of ", errors.size(), ", worst ",
            100 * magnitude(*std::ranges::max_element(errors, {}, magnitude)));
    CHECK(mean_magnitude(errors) <= 0.05);
}
