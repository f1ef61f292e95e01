// SPDX-License-Identifier: Apache-2.0
#include "lib/model/evaluate_plan.hpp"

#include "lib/core/error.hpp"
#include "lib/model/techniques.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace tpx;

namespace {

Job seven_billion_job(double memory = 80e9) {
    Job job;
    job.model.parameters = 6.74e9;
    job.model.layers = 32;
    job.model.hidden = 4096;
    job.model.heads = 32;
    job.model.sequence = 2048;
    job.model.vocabulary = 32000;
    job.parameters = prior_parameters(job.model);
    job.batch = 16;
    job.gpu_memory = memory;
    return job;
}

}  // namespace

TEST_CASE("all plans that are enumerated are possible, different, and of the right size") {
    const Job job = seven_billion_job();
    for (const int gpus : {1, 2, 8, 16, 64, 128}) {
        std::set<std::string> seen;
        for (const ExecutionPlan& plan : possible_plans(job, gpus, 8)) {
            CHECK(plan.gpus() == gpus);
            CHECK(possible(job, plan));
            CHECK(plan.tp <= 8);
            CHECK(seen.insert(to_string(plan)).second);
        }
        CHECK_FALSE(seen.empty());
    }
    for (const int gpus : {3, 6, 7, 24})  // neither heads, layers nor samples can be cut so
        CHECK(possible_plans(job, gpus, 8).empty());
}

TEST_CASE("plans that use an excluded technique are not possible, and all others stay") {
    Job job = seven_billion_job();
    const std::vector<ExecutionPlan> all = possible_plans(job, 8, 8);
    for (const std::string_view technique : techniques) {
        CAPTURE(technique);
        job.excluded = {technique};
        const auto users = std::ranges::count_if(all, [&](const ExecutionPlan& plan) { return uses(plan, technique); });
        const std::vector<ExecutionPlan> left = possible_plans(job, 8, 8);
        CHECK(users > 0);
        CHECK(left.size() == all.size() - static_cast<std::size_t>(users));
        CHECK(std::ranges::none_of(left, [&](const ExecutionPlan& plan) { return uses(plan, technique); }));
    }
    job.excluded.assign(techniques.begin(), techniques.end());
    CHECK(possible_plans(job, 8, 8) == std::vector{parse_execution_plan("dp=8")});
    for (const CurvePoint& point : sensitivity_curve(job, 1, 8, 8))
        CHECK((!point.best || point.best->plan.dp == point.gpus));
}

TEST_CASE("the best plan is no slower than any that fits") {
    const Job job = seven_billion_job();
    const Allocation two_hosts = packed(job, 16, 8);
    const std::vector<EvaluatedPlan> ranked = best_plans(job, two_hosts);
    REQUIRE_FALSE(ranked.empty());
    std::size_t fitting = 0;
    for (const ExecutionPlan& plan : possible_plans(job, 16, 8)) {
        const EvaluatedPlan judged = evaluate_plan(job, plan, two_hosts);
        if (!judged.fits) continue;
        ++fitting;
        CHECK(judged.time.total() >= ranked.front().time.total());
    }
    CHECK(fitting == ranked.size());
    CHECK(std::ranges::is_sorted(ranked, {}, [](const EvaluatedPlan& judged) { return judged.time.total(); }));
}

TEST_CASE("LLaMA-7B: what is known of 80 GB GPUs") {
    const Job job = seven_billion_job();
    const auto fits = [&](const char* text, double batch) {
        Job other = job;
        other.batch = batch;
        const ExecutionPlan plan = parse_execution_plan(text);
        return evaluate_plan(other, plan, packed(other, plan.gpus(), 8)).fits;
    };
    CHECK_FALSE(fits("dp=1", 1));  // 16 bytes for each parameter are 108 GB
    CHECK_FALSE(fits("dp=8", 8));
    CHECK_FALSE(fits("dp=1,recompute=full", 1));
    CHECK(fits("zero=2,ga=8,recompute=full,offload", 8));
    CHECK(fits("dp=8,zero=3,recompute=full", 8));
    CHECK(fits("tp=8,pp=2,mb=8,recompute=full", 8));
}

TEST_CASE("less memory never helps, and too little leaves nothing") {
    double before = 0;
    for (const double memory : {20e9, 40e9, 80e9, 160e9}) {
        const Job job = seven_billion_job(memory);
        const std::vector<EvaluatedPlan> ranked = best_plans(job, packed(job, 8, 8));
        const double throughput = ranked.empty() ? 0 : ranked.front().throughput(job.batch);
        CHECK(throughput >= before);
        before = throughput;
    }
    const Job none = seven_billion_job(1e9);
    CHECK(best_plans(none, packed(none, 8, 8)).empty());
}

TEST_CASE("a sensitivity curve never falls, and its slopes are its differences") {
    const Job job = seven_billion_job();
    const std::vector<CurvePoint> curve = sensitivity_curve(job, 1, 24, 8);
    REQUIRE(curve.size() == 24);
    for (std::size_t i = 0; i + 1 < curve.size(); ++i) {
        CHECK(curve[i + 1].throughput >= curve[i].throughput);
        CHECK(curve[i].slope == doctest::Approx(curve[i + 1].throughput - curve[i].throughput));
    }
    CHECK_FALSE(curve[6].best);  // 7 GPUs
    CHECK(curve[6].throughput == curve[5].throughput);
    for (const CurvePoint& point : curve) {
        REQUIRE(point.fastest);
        CHECK(point.fastest->throughput(job.batch) == point.throughput);
        CHECK(point.used <= point.gpus);
    }
    CHECK_THROWS_AS(sensitivity_curve(job, 0, 4, 8), Error);
    CHECK_THROWS_AS(sensitivity_curve(job, 5, 4, 8), Error);
}

TEST_CASE("GPUs are packed on hosts") {
    const Job job = seven_billion_job();
    CHECK(packed(job, 20, 8).gpus == std::vector<int>{8, 8, 4});
    CHECK(packed(job, 3, 8).gpus == std::vector<int>{3});
}
