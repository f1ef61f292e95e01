// SPDX-License-Identifier: Apache-2.0
#include "formats/settings/pipeline_stages.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

namespace tpx::formats::megatron {

TEST_CASE("a pipeline layout in words") {
    CHECK(parse_stages("Ettt|(tt|)*3,m|L") == std::vector{3, 2, 2, 2, 0, 0});
    CHECK(parse_stages("Et*3|t*4|L") == std::vector{3, 4, 0});
    CHECK(parse_stages("(Et*2|)*1tL") == std::vector{2, 1});
    for (const char* text : {"Ex|L", "E(t|", "Et*|L", "t*99999999|", "(t*60000)*60000"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(parse_stages(text), Error);
    }
}

TEST_CASE("stages are converted to text") {
    CHECK(stages_text({1, 0, 2}, 0) == "Et||ttL");
    CHECK(stages_text({2}, 1) == "EttmL");
    for (const std::vector<int>& stages : std::vector<std::vector<int>>{{0, 2, 3, 1}, {1}, {3, 0}})
        CHECK(parse_stages(stages_text(stages, 1)) == stages);
}

TEST_CASE("the text contains the chunk of multi-token prediction") {
    const Layout layout{.pp = 2, .vpp = 2};
    const auto chunk = [&](const char* words) {
        return chunk_of_prediction({{"pipeline_model_parallel_layout", std::string{words}}}, layout);
    };
    CHECK(chunk("Et|tt|m|L") == 2);
    CHECK(chunk("Et|tt|t|mL") == 3);
    CHECK(chunk("E|t*3|(m|)*1L") == 2);
    CHECK(chunk("Et|tt|t|L") == 3);
    CHECK(chunk_of_prediction({}, layout) == 3);
}

TEST_CASE("stages from Megatron's args") {
    const auto stages = [](Config args, int layers, Layout layout) {
        set_stages(args, layers, layout);
        return layout;
    };
    CHECK(stages({}, 4, {.pp = 2}).stages.empty());
    const Layout uneven = stages({{"decoder_first_pipeline_num_layers", std::int64_t{1}}}, 5, {.pp = 3});
    CHECK(uneven.first == 1);
    const Config both{{"account_for_embedding_in_pipeline_split", true}, {"account_for_loss_in_pipeline_split", true}};
    CHECK(stages(both, 6, {.pp = 2}).stages == std::vector{3, 3});
    CHECK(stages(both, 6, {.pp = 4}).stages == std::vector{1, 2, 2, 1});
    CHECK(stages({{"account_for_loss_in_pipeline_split", true}}, 7, {.pp = 2, .vpp = 2}).stages ==
          std::vector{2, 2, 2, 1});
    CHECK_THROWS_AS(stages(both, 5, {.pp = 2}), Error);
    const Config words{{"pipeline_model_parallel_layout", std::string{"Et|tt|t|L"}}};
    CHECK(stages(words, 4, {.pp = 2, .vpp = 2}).stages == std::vector{1, 2, 1, 0});
    CHECK_THROWS_AS(stages(words, 4, {.pp = 3}), Error);
}

}  // namespace tpx::formats::megatron
