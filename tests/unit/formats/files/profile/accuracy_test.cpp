// SPDX-License-Identifier: Apache-2.0
// How well the throughput model predicts the measured times of testdata/profile/rubick that were not fitted. The terms
// of the model and its priors were chosen with these tables, so the errors are those for a known cluster;
// clusters_test.cpp has other clusters. All rows of all tables count, even those that no plan explains (S1).
#include "tests/support/sanitized.hpp"
#include "tests/unit/formats/files/profile/baseline.hpp"
#include "tests/unit/formats/files/profile/measured_tables.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

using namespace tpx;
using namespace tpx::formats;

namespace {

constexpr int training_rows = 9;
const std::string rubick_folder = "testdata/profile/rubick/";

using MeasuredModel = test::MeasuredTable;

MeasuredModel measured(const std::string& name) { return test::rubick_table(name); }

std::vector<Run> runs_of(const MeasuredModel& table, const std::vector<std::size_t>& indices) {
    std::vector<Run> runs;
    for (const std::size_t i : indices) runs.push_back(table.runs[i]);
    return runs;
}

// On one GPU, RoBERTa without recomputation takes as long as on two: it must have run half of the batch.
bool has_half_of_the_batch(const MeasuredModel& table, const Run& run) {
    return table.name == "roberta" && run.allocation.total() == 1 && run.plan.recompute == Recompute::none &&
           !run.plan.offload;
}

// Mean and largest relative error inside one host, and across hosts, and the mean error of a regression to the same
// runs.
struct RowErrors {
    double inside = 0, across = 0, worst = 0, regression = 0;
    int inside_count = 0, across_count = 0;
    double half_batch = 0;  // those of RoBERTa's runs with half of the batch, which `inside` contains
    int half_batch_count = 0;
    std::size_t covered = 0;  // rows inside their 90 % interval

    void add(const MeasuredModel& table, const HoldOutResult& held_out) {
        const test::LogLinear baseline{runs_of(table, held_out.train)};
        covered += held_out.covered;
        for (std::size_t i = 0; i < held_out.test.size(); ++i) {
            const double error = std::abs(held_out.errors[i]);
            const Run& run = table.runs[held_out.test[i]];
            const bool one = run.allocation.gpus.size() == 1;
            (one ? inside : across) += error;
            ++(one ? inside_count : across_count);
            if (has_half_of_the_batch(table, run)) half_batch += error, ++half_batch_count;
            worst = std::max(worst, error);
            regression += std::abs(baseline.seconds(run) / run.seconds - 1);
        }
    }
    double mean_regression() const { return regression / (inside_count + across_count); }
    double mean_inside() const { return inside_count > 0 ? inside / inside_count : 0; }
    double mean_inside_whole() const {
        return inside_count > half_batch_count ? (inside - half_batch) / (inside_count - half_batch_count) : 0;
    }
    double mean_across() const { return across_count > 0 ? across / across_count : 0; }
};

// The errors allowed for one way to choose the nine runs, in percent: on one host, across hosts.
struct Limit {
    double inside, across;
    double inside_all = 0;  // of all rows on one host, if `inside` is for those with the whole batch
};

struct Target {
    const char* name;
    Limit suggested, drawn, placements;
};

// 5 % and 7 %, 3 % for LLaMA-7B, whose rows across hosts are all 3D. Some limits are what is reached: those of ViT,
// such as 23 % across hosts on other placements; 5.2 % for BERT on other placements; and 22, 21 and 20 % for all of
// RoBERTa's rows on one host (21.7, 20.7 and 19.8 %), whose first limit is for the rows with the whole batch. ViT is so
// small that its steps on several hosts wait most of the time, wherever GPUs do not fill their NICs, for 0.1 to 0.5 s.
constexpr Target targets[] = {{"gpt2", {5, 7}, {5, 7}, {5, 7}},   {"t5", {5, 7}, {5, 7}, {5, 7}},
                              {"bert", {5, 7}, {5, 7}, {5.2, 7}}, {"roberta", {9, 6, 22}, {9, 5, 21}, {9, 6, 20}},
                              {"vit", {6, 15}, {6, 22}, {9, 23}}, {"llama7", {5, 3}, {5, 3}, {5, 3}},
                              {"llama30", {0, 7}, {0, 7}, {0, 7}}};

void check(const char* name, const Limit& limit, const RowErrors& errors) {
    MESSAGE(std::string{name}, ": one host ", 100 * errors.mean_inside(), " % of ", errors.inside_count,
            ", across hosts ", 100 * errors.mean_across(), " % of ", errors.across_count, ", worst ",
            100 * errors.worst, ", regression ", 100 * errors.mean_regression());
    if (errors.half_batch_count > 0) {
        MESSAGE(std::string{name}, ": rows with the whole batch on one host ", 100 * errors.mean_inside_whole(), " %");
        CHECK(errors.mean_inside() <= limit.inside_all / 100);
    }
    CHECK(errors.mean_inside_whole() <= limit.inside / 100);
    CHECK(errors.mean_across() <= limit.across / 100);
}

// MeasuredModel seconds of the plan that the model chooses on each placement over those of the best one there, minus 1.
struct Regret {
    double sum = 0;
    int choices = 0, best = 0;

    void add(const MeasuredModel& table, const Parameters& parameters) {
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

Fit fit_of(const MeasuredModel& table, const HoldOutResult& held_out) {
    return fit_parameters(table.model.size, runs_of(table, held_out.train), table.prior);
}

HoldOutResult held_out(const MeasuredModel& table, std::optional<unsigned> draw = {}) {
    return hold_out(table.model.size, table.runs, table.prior, training_rows, draw);
}

}  // namespace

TEST_CASE("S1: the nine runs that --suggest names predict all the others, those of RoBERTa and ViT worse") {
    for (const Target& target : targets) {
        const MeasuredModel table = measured(target.name);
        const HoldOutResult split = held_out(table);
        CHECK(split.train.size() == training_rows);
        CHECK(split.train.size() + split.test.size() == table.runs.size());
        RowErrors errors;
        errors.add(table, split);
        check(target.name, target.suggested, errors);
    }
}

TEST_CASE("so they do on average with fifty random first runs; 90 % intervals cover at least 85 %" *
          doctest::skip(test::is_sanitized)) {
    double covered = 0, rows = 0;
    for (const Target& target : targets) {
        const MeasuredModel table = measured(target.name);
        RowErrors errors;
        for (unsigned draw = 1; draw <= 50; ++draw) errors.add(table, held_out(table, draw));
        check(target.name, target.drawn, errors);
        const double count = errors.inside_count + errors.across_count;
        MESSAGE(std::string{target.name}, ": intervals cover ", 100 * static_cast<double>(errors.covered) / count,
                " %");
        CHECK(static_cast<double>(errors.covered) >= 0.85 * count);
        covered += static_cast<double>(errors.covered);
        rows += count;
    }
    MESSAGE("intervals cover ", 100 * covered / rows, " % of ", rows, " predictions");
    CHECK(covered / rows >= 0.85);
    CHECK(covered / rows <= 0.95);
}

TEST_CASE("S2: one of nine runs that takes twice or half as long costs the predictions of the others little" *
          doctest::skip(test::is_sanitized)) {
    double right = 0, doubled = 0, halved = 0, missing = 0;  // `missing`: the wrong run is known and left out
    for (const Target& target : targets) {
        const MeasuredModel table = measured(target.name);
        const HoldOutResult split = held_out(table);
        const std::vector<Run> nine = runs_of(table, split.train), others = runs_of(table, split.test);
        const auto error_with = [&](std::size_t wrong, double factor) {
            std::vector<Run> runs = nine;
            if (factor > 0)
                runs[wrong].seconds *= factor;
            else
                runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(wrong));
            const Parameters parameters = fit_parameters(table.model.size, runs, table.prior).parameters;
            double sum = 0;
            for (const Run& run : others)
                sum += std::abs(predicted_seconds(parameters, table.model.size, run) / run.seconds - 1);
            return sum / static_cast<double>(others.size()) / std::size(targets);
        };
        right += mean_magnitude(split.errors) / std::size(targets);
        for (std::size_t i = 0; i < nine.size(); ++i) {
            doubled += error_with(i, 2) / static_cast<double>(nine.size());
            halved += error_with(i, 0.5) / static_cast<double>(nine.size());
            missing += error_with(i, 0) / static_cast<double>(nine.size());
        }
    }
    MESSAGE("one wrong run of nine: ", 100 * right, " % without, ", 100 * doubled, " % where it is doubled, ",
            100 * halved, " % where it is halved, ", 100 * missing, " % where it is left out");
    CHECK(doubled <= std::min(right + 0.013, 0.07));
    CHECK(halved <= std::min(right + 0.013, 0.07));
}

TEST_CASE("a placement that no fitted run was on is predicted" * doctest::skip(test::is_sanitized)) {
    for (const Target& target : targets) {
        const MeasuredModel table = measured(target.name);
        const auto hosts = [&](std::size_t run) {
            std::vector<int> gpus = table.runs[run].allocation.gpus;
            std::ranges::sort(gpus);
            return gpus;
        };
        RowErrors errors;
        for (const HoldOutResult& left :
             leave_one_placement_out(table.model.size, table.runs, table.prior, training_rows)) {
            for (const std::size_t i : left.train)
                for (const std::size_t j : left.test) CHECK(hosts(i) != hosts(j));
            errors.add(table, left);
        }
        check(target.name, target.placements, errors);
    }
}

TEST_CASE("S1: the chosen plan takes at most 2 % longer than the best one, 1 % without ViT" *
          doctest::skip(test::is_sanitized)) {
    Regret all, others;
    for (const Target& target : targets) {
        const MeasuredModel table = measured(target.name);
        for (unsigned draw = 1; draw <= 10; ++draw) {
            const Parameters parameters = fit_of(table, held_out(table, draw)).parameters;
            all.add(table, parameters);
            if (std::string_view{target.name} != "vit") others.add(table, parameters);
        }
    }
    for (const auto& [name, regret] : {std::pair{"all", all}, {"without ViT", others}})
        MESSAGE(std::string{name}, ": ", regret.choices, " placements, the best plan chosen on ", regret.best,
                ", mean regret ", regret.sum / regret.choices);
    CHECK(others.choices > 600);
    CHECK(others.sum / others.choices <= 0.01);
    CHECK(all.choices > 1200);
    CHECK(all.sum / all.choices <= 0.02);
}

// The measured runs of LLaMA-7B with 16 samples per step, in micro-batches of one: the runs that offload, or all
// others. The former were made in another way: two of them need little more time for 16 samples than the other table
// has for 8.
std::vector<Run> sixteen_samples(bool offloaded = false) {
    Table table = parse_table(read_file("testdata/profile/rubick-16/llama7.csv"), "llama7.csv");
    const std::size_t plan = table.find("exec_plan"), seconds = table.find("iter_time");
    std::erase_if(table.rows, [&](const Table::Row& row) {
        return row.cells[seconds] == "0" || row.cells[plan].starts_with("zero-offload") != offloaded;
    });
    for (Table::Row& row : table.rows)
        if (offloaded) row.cells[plan] = "zero-offload";  // "+gc", as in columns.toml
    const std::string file = rubick_folder + "columns.toml";
    ColumnMap columns = parse_columns(read_file(file), file);
    columns.sources["cpus"].column = "cpu_threads";
    std::vector<Run> runs = read_runs(table, columns, {16, 2, 4});
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
    const MeasuredModel table = measured("llama7");
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

TEST_CASE("S1: nine runs of 8 samples in one batch predict those of 16 in micro-batches, but not offloaded ones") {
    const MeasuredModel table = measured("llama7");
    const Parameters parameters = fit_of(table, held_out(table)).parameters;
    for (const bool offloaded : {false, true}) {
        std::vector<double> errors;
        for (const Run& run : sixteen_samples(offloaded))
            errors.push_back(predicted_seconds(parameters, table.model.size, run) / run.seconds - 1);
        const auto magnitude = [](double error) { return std::abs(error); };
        MESSAGE("16 samples", std::string{offloaded ? ", offloaded: " : ": "}, 100 * mean_magnitude(errors), " % of ",
                errors.size(), ", worst ", 100 * magnitude(*std::ranges::max_element(errors, {}, magnitude)));
        if (!offloaded) CHECK(mean_magnitude(errors) <= 0.05);
    }
}
