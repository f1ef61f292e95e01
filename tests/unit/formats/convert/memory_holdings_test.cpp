// SPDX-License-Identifier: Apache-2.0
#include "formats/files/model_file.hpp"
#include "lib/change/held_bytes.hpp"
#include "lib/model/memory_use.hpp"
#include "tests/support/families.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tpx;
using namespace tpx::formats;

// The memory model knows only the size of a model, so it cannot place position embeddings, norms or an untied output
// layer.
TEST_CASE("the memory model predicts the largest state of a GPU within 7 % of the plan's") {
    constexpr const char* roles = "weight:bf16,master:f32,exp_avg:f32,exp_avg_sq:f32";
    for (const char* name : {"gpt3-1.3b", "gpt3-6.7b", "gpt3-175b", "llama3-8b", "llama3-70b", "llama3-405b"}) {
        const ModelState model = read_model(name, test::families(), {}, roles);
        const ModelSize size = size_of(model, 2048);
        for (const char* text : {"tp=1", "tp=8", "tp=4,dp=4", "tp=2,dp=8,zero=1", "tp=8,dp=16,zero=1",
                                 "tp=4,cp=2,dp=4,zero=2", "tp=8,pp=2", "tp=4,pp=4,dp=8,zero=1"}) {
            CAPTURE(name);
            CAPTURE(text);
            const Layout layout = parse_layout(text);
            if (model.layers % layout.pp != 0) continue;
            const std::vector<std::int32_t> no_group(static_cast<std::size_t>(layout.ranks()), -1);
            const std::vector<std::uint64_t> held = held_bytes(model, layout, layout, no_group, 0).ranks;
            const ExecutionPlan plan{
                .dp = layout.dp, .tp = layout.tp, .pp = layout.pp, .cp = layout.cp, .zero = layout.zero};
            const MemoryUse use = memory_use(size, 512, plan, 8);
            const auto fullest = static_cast<double>(std::ranges::max(held));
            CHECK(use.weights + use.optimizer == doctest::Approx(fullest).epsilon(0.07));
        }
    }
}
