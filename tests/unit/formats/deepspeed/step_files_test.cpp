// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/step_files.hpp"

#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

namespace tpx::formats::deepspeed {

TEST_CASE("ranks are parsed from the names of DeepSpeed's files") {
    using Kind = FileName::Kind;
    const auto is = [](std::string_view name, Kind kind, int dp, int mp, int layer, int expert) {
        CAPTURE(name);
        const auto found = parse_file_name(name);
        REQUIRE(found);
        CHECK(found->kind == kind);
        CHECK(std::array{found->dp, found->mp, found->layer, found->expert} == std::array{dp, mp, layer, expert});
    };
    is("mp_rank_03_model_states.pt", Kind::model, -1, 3, -1, -1);
    is("zero_pp_rank_12_mp_rank_01_model_states.pt", Kind::model, 12, 1, -1, -1);
    is("zero_pp_rank_0_mp_rank_00_optim_states.pt", Kind::optimizer, 0, 0, -1, -1);
    is("bf16_zero_pp_rank_10_mp_rank_00_optim_states.pt", Kind::optimizer, 10, 0, -1, -1);
    is("layer_07-model_01-model_states.pt", Kind::layer, -1, 1, 7, -1);
    is("layer_07-model_states.pt", Kind::layer, -1, 0, 7, -1);
    is("layer_0_expert_12_mp_rank_00_model_states.pt", Kind::expert, -1, 0, 0, 12);
    is("expp_rank_1_mp_rank_00_optim_states.pt", Kind::expert_optimizer, -1, 0, -1, 1);
}

TEST_CASE("other file names are not DeepSpeed's") {
    for (const char* name : {"mp_rank_00_model_states.pt.tmp", "mp_rank_-1_model_states.pt", "mp_rank__model_states.pt",
                             "bf16_mp_rank_00_model_states.pt", "mp_rank_00_optim_states.pt", "layer_x-model_states.pt",
                             "mp_rank_99999999999_model_states.pt", "model.pt", ""})
        CHECK_MESSAGE(!parse_file_name(name), name);
}

TEST_CASE("two files of one rank are refused") {
    const test::Scratch scratch;
    for (const char* name : {"mp_rank_0_model_states.pt", "mp_rank_00_model_states.pt"})
        test::write_text(scratch.path() / name, "");
    CHECK(test::error_of([&] { list_step(scratch.path()); }).find(": belongs to the same rank as ") !=
          std::string::npos);
}

}  // namespace tpx::formats::deepspeed
