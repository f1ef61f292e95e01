// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/stored_plan.hpp"

#include "cmd/plan/planning.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace tpx;
using namespace tpx::cli;

namespace {

PlanReport plan_small(const std::string& to, const std::string& format) {
    PlanOptions options;
    options.checkpoint = "testdata/llama-small/megatron-tp2pp2";
    options.to = to;
    options.format = format;
    options.output = "change.plan";
    return make_plan_report(options);
}

}  // namespace

TEST_CASE("a stored plan is executed only if everything is laid out as when it was made") {
    const PlanReport report = plan_small("pp=2", "safetensors");
    const formats::Source& source = report.checkpoint->opened.source;
    const formats::Target& target = report.checkpoint->target;
    const test::Scratch scratch;
    const auto file = scratch.path() / "change.plan";
    write_plan(report, file);

    const formats::PlanFile plan = read_plan_to_run(file);
    const formats::Target again = target_of(plan);
    CHECK(again.layout == target.layout);
    CHECK(again.format == target.format);
    CHECK_NOTHROW(check_source(*plan.checkpoint, file, source));
    CHECK_NOTHROW(check_conversion(*plan.checkpoint, file, report.checkpoint->conversion, source));

    const auto refused = [&](const std::function<void(formats::FileChange&)>& alter, std::string_view why) {
        formats::FileChange other = *plan.checkpoint;
        alter(other);
        CHECK_THROWS_WITH_AS(check_conversion(other, file, report.checkpoint->conversion, source),
                             (file.string() + ": was made for " + std::string{why}).c_str(), Error);
    };
    refused([](auto& p) { p.tensors[0].name += "x"; }, "other tensors: number 0 ('embed', bf16) is not the same now");
    refused([](auto& p) { p.target_dtypes[1] = DType::f32; },
            "other tensors: number 1 ('layers.0.ln1', bf16) is not the same now");
    refused([](auto& p) { p.source_files.pop_back(); }, "7 files of the source, there are 8 now");
    refused([](auto& p) { p.target_files[0].size += 1; },
            "other files to write: number 0 ('shard-00001-model-00001-of-00001.safetensors', 90120 bytes) is not the "
            "same now");
    refused([](auto& p) { p.source[0].offset += 1; },
            "other pieces of the source: number 0 ([0:80, 0:48] of 'embed') is not the same now");
    refused([](auto& p) { p.target[0].rank = 7; },
            "other pieces to write: number 0 ([0:131, 0:48] of 'embed') is not the same now");
}

TEST_CASE("a stored plan whose moves do not cover the target is not executed") {
    PlanReport report = plan_small("tp=4", "torch_dist");
    const test::Scratch scratch;
    const auto file = scratch.path() / "change.plan";
    report.checkpoint->moves.pop_back();
    write_plan(report, file);
    CHECK_THROWS_WITH_AS(read_plan_to_run(file), doctest::Contains("is not covered exactly once"), Error);
}
