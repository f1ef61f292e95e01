// SPDX-License-Identifier: Apache-2.0
#include "lib/model/execution_plan.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tpx;

TEST_CASE("a plan reads back as it was written") {
    for (const char* text : {"dp=1", "dp=8", "tp=2", "dp=4,tp=2,pp=3,mb=16", "dp=2,cp=4,vpp=2,ga=3,zero=1",
                             "dp=8,zero=2,recompute=full,offload", "tp=8,recompute=selective,sp"})
        CHECK(to_string(parse_execution_plan(text)) == text);
    CHECK(parse_execution_plan("tp=1,recompute=none") == ExecutionPlan{});
}

TEST_CASE("what is no plan is refused with the word") {
    const auto refusal = [](const char* text) {
        try {
            parse_execution_plan(text);
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::usage);
            return std::string{error.what()};
        }
        return std::string{};
    };
    CHECK(refusal("") == "plan: it is empty; 'dp=1' is the plan of one GPU");
    CHECK(refusal("dp=0") == "plan: dp=0: a whole number from 1 to 1048576 was expected");
    CHECK(refusal("zero=4") == "plan: zero=4: a whole number from 0 to 3 was expected");
    CHECK(refusal("tp=2x") == "plan: tp=2x: a whole number from 1 to 1048576 was expected");
    CHECK(refusal("recompute=some") == "plan: recompute=some: none, selective or full was expected");
    CHECK(refusal("dp=65536,tp=65536") == "plan: more than 16777216 GPUs");
    CHECK(refusal("gpus=4").starts_with("plan: unknown word 'gpus=4'"));
    CHECK(refusal("offload=1").starts_with("plan: unknown word 'offload=1'"));
    CHECK(refusal("dp=2,,tp=2").starts_with("plan: unknown word ''"));
}
