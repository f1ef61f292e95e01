// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/model_plans.hpp"

#include "formats/files/profile/throughput_file.hpp"
#include "formats/files/trace/cluster_file.hpp"
#include "formats/files/trace/trace_file.hpp"
#include "lib/cluster/speed.hpp"
#include "lib/model/techniques.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string_view>
#include <utility>

namespace tpx {
namespace {

Job job_called(const std::string& name) {
    return formats::job_of(formats::read_throughput_model("testdata/profile/rubick/" + name + ".toml"));
}

TEST_CASE("of all plans that are possible and fit, the chosen one is the fastest on every placement") {
    std::mt19937 random{3};
    for (const char* name : {"bert", "llama7"}) {
        const Job job = job_called(name);
        const ModelPlans plans{job};
        for (int round = 0; round < 12; ++round) {
            HostShape shape(1 + random() % 3);
            for (int& gpus : shape) gpus = 1 + static_cast<int>(random() % 8);
            std::ranges::sort(shape, std::greater{});
            const Allocation there{shape, job.gpus_per_nic, job.cpus};
            double most = 0;
            for (const ExecutionPlan& plan : possible_plans(job, there.total(), shape[0])) {
                const EvaluatedPlan judged = evaluate_plan(job, plan, there);
                if (judged.fits) most = std::max(most, 1 / judged.time.total());
            }
            const int best = plans.best(shape);
            CHECK((best == any) == (most == 0));
            if (best != any) CHECK(plans.rate(plans.plan(best), shape) == most);
        }
    }
}

TEST_CASE("a job with predicted step times keeps its kind of plan unless it may choose") {
    const Job job = job_called("t5");
    const auto plans = std::make_shared<ModelPlans>(job);
    const Cluster cluster = formats::read_cluster("2x8");
    const ExecutionPlan own = parse_execution_plan("dp=2,tp=4,recompute=full");
    const ModelSpeed speed{plans, own};
    const Grant eight{{{0, 8}}}, sixteen{{{0, 8}, {1, 8}}}, six{{{0, 6}}};
    CHECK(speed.rate(eight, cluster) == 1 / evaluate_plan(job, own, {{8}, job.gpus_per_nic, job.cpus}).time.total());
    CHECK(speed.rate(six, cluster) == 0);  // no multiple of its four
    CHECK(speed.rate(sixteen, cluster) > 0);
    CHECK_FALSE(speed.data_parallel());
    const int like = plans->best_like(own, {8, 8});
    REQUIRE(like != any);
    CHECK(plans->plan(like).dp == 4);
    CHECK(plans->plan(like).tp == 4);
    CHECK(plans->plan(like).recompute == Recompute::full);
    CHECK(speed.rate(sixteen, cluster) == plans->rate(plans->plan(like), {8, 8}));
    for (const bool own_kind : {false, true}) {
        Grant chosen = sixteen;
        chosen.plan = speed.best_plan(sixteen, cluster, own_kind);
        CHECK(speed.rate(chosen, cluster) >= speed.rate(sixteen, cluster));
    }
}

formats::ParsedTrace predicted(const std::string& text) {
    const Cluster cluster = formats::read_cluster("2x8");
    const formats::JobSpeeds book = formats::read_speeds("testdata/profile/rubick/gpt2.toml", cluster);
    CHECK(book.assumed.size() == 1);
    return formats::parse_trace(text, "t", cluster, book);
}

TEST_CASE("plans of a trace are run as they say, or refused with their line") {
    const Cluster cluster = formats::read_cluster("2x8");
    const formats::ParsedTrace trace = predicted(
        "arrival,gpus,steps,model,plan\n0,8,100,gpt2,\"tp=4,recompute=full\"\n0,8,100,gpt2,\n0,8,100,gpt2,tp=3\n"
        "0,8,100,gpt2,\"dp=4,tp=4\"\n0,8,100,gpt3,\n0,8,100,gpt2,tp=4=4\n");
    REQUIRE(trace.jobs.size() == 2);
    CHECK(full_rate(trace.jobs[1], cluster) >= full_rate(trace.jobs[0], cluster));
    REQUIRE(trace.bad.size() == 4);
    CHECK(trace.bad[0] == "t:4: 'tp=3' is for 6 GPUs, not 8");
    CHECK(trace.bad[1] == "t:5: 'dp=4,tp=4' is for 16 GPUs, not 8");
    CHECK(trace.bad[2] == "t:6: the job has steps, but --speeds has no rates for job 'job-6' or model 'gpt3'");
    CHECK(trace.bad[3].starts_with("t:7: "));
}

TEST_CASE("a job that takes some time as it asks to run takes that time") {
    const Cluster cluster = formats::read_cluster("2x8");
    const formats::ParsedTrace trace = predicted("arrival,gpus,duration,model,plan\n0,8,3600,gpt2,tp=8\n");
    REQUIRE(trace.jobs.size() == 1);
    CHECK(trace.jobs[0].work / full_rate(trace.jobs[0], cluster) == doctest::Approx(3600e6));
}

TEST_CASE("no policy chooses an excluded plan, and jobs keep their own") {
    const Job job = job_called("t5");
    ModelPlans plans{job};
    plans.exclude({"zero", "recompute", "offload"});
    for (const HostShape& shape : {HostShape{8}, HostShape{8, 8}, HostShape{4, 2}}) {
        const int best = plans.best(shape);
        if (best == any) continue;
        CHECK_FALSE(uses_any(plans.plan(best), std::array<std::string_view, 3>{"zero", "recompute", "offload"}));
    }
    CHECK(plans.best({8}) != any);
    CHECK(plans.best_like(parse_execution_plan("dp=8,zero=1"), {8}) != any);

    const auto table = std::make_shared<PlanTable>();
    table->add("zero-dp", {4}, 1);
    table->add("gc", {4}, 2);
    table->add("141", {4}, 3);
    table->add("ga", {4}, 4);
    const PlanSpeed speed{table, table->find("ga"), 4, 0.25};
    const Cluster cluster = formats::read_cluster("1x4");
    const Grant four{{{0, 4}}};
    for (const auto& [excluded, chosen] : {std::pair{"none", "zero-dp"}, {"zero", "gc"}, {"recompute", "zero-dp"}}) {
        table->exclude(std::array<std::string_view, 1>{excluded});
        CHECK(speed.plan_name(speed.best_plan(four, cluster, false)) == chosen);
    }
    table->exclude(std::array<std::string_view, 3>{"zero", "recompute", "tp"});
    CHECK(speed.best_plan(four, cluster, false) == 0);
    CHECK_FALSE(table->is_excluded(table->find("ga")));
    table->exclude(std::array<std::string_view, 1>{"ga"});
    CHECK(table->is_excluded(table->find("ga")));
    CHECK_FALSE(table->is_excluded(table->find("gc")));
}

}  // namespace
}  // namespace tpx
