// SPDX-License-Identifier: Apache-2.0
#include "lib/model/techniques.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tpx;

TEST_CASE("each technique is used by the plan that names it alone, and none by data parallelism") {
    for (const char* text : {"tp=2", "pp=2", "zero=1", "sp", "recompute=selective", "offload", "ga=2"}) {
        CAPTURE(text);
        const ExecutionPlan plan = parse_execution_plan(text);
        const auto used = [&](std::string_view technique) { return uses(plan, technique); };
        CHECK(std::ranges::count_if(techniques, used) == 1);
        CHECK(used(std::string_view{text}.substr(0, std::string_view{text}.find('='))));
    }
    for (const std::string_view technique : techniques) CHECK_FALSE(uses(parse_execution_plan("dp=8"), technique));
}
