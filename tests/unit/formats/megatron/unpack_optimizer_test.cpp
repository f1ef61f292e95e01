// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/unpack_optimizer.hpp"

#include "formats/open_source.hpp"
#include "formats/rules/rules.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

#include <numeric>

namespace tpx::formats {
namespace {

Source opened(const std::filesystem::path& path, const Families& families, const Config& config = {}) {
    Source source = open_source(path, families, config);
    std::vector<std::uint32_t> all(source.checkpoint.catalogue.pieces.size());
    std::iota(all.begin(), all.end(), 0u);
    locate(source.checkpoint, all);
    return source;
}

}  // namespace

TEST_CASE("buckets of the distributed optimizer become the tensors of fully_reshardable") {
    const std::filesystem::path folder = test::fixtures();
    if (folder.empty()) return;
    const Families families = load_families({});
    const std::filesystem::path megatron = folder / "megatron";
    const auto is_state = [](const std::string& name) { return name.starts_with("optimizer.state."); };
    for (const std::string kind :
         {"dp2-dp_reshardable", "dp2-dp_zero_gather_scatter", "dp4-dp_reshardable", "dp4-dp_reshardable-buckets"}) {
        CAPTURE(kind);
        const Source source = opened(megatron / ("llama-opt-dist-tp1pp1" + kind) / "ckpt", families);
        CHECK(source.checkpoint.notes.empty());
        const auto found = test::assemble(source.checkpoint.catalogue);
        const Source whole = opened(megatron / "llama-opt-dist-tp1pp1dp2-fully_reshardable" / "ckpt", families);
        CHECK(found == test::assemble(whole.checkpoint.catalogue));
        CHECK(std::ranges::count_if(source.checkpoint.catalogue.tensors, is_state, &Tensor::name) == 27);
    }
}

TEST_CASE("buckets that args do not explain are kept unchanged, with a note") {
    const std::filesystem::path folder = test::fixtures();
    if (folder.empty()) return;
    const Families families = load_families({});
    const std::filesystem::path path = folder / "megatron/llama-opt-dist-tp1pp1dp4-dp_reshardable-buckets/ckpt";
    const Source source = opened(path, families, {{"overlap_param_gather_with_optimizer_step", true}});
    REQUIRE(source.checkpoint.notes.size() == 1);
    CHECK(source.checkpoint.notes[0].find("but these parameters need") != std::string::npos);
    CHECK(std::ranges::any_of(source.checkpoint.catalogue.tensors, [](const Tensor& tensor) {
        return tensor.name.find("bucket_idx_0.exp_avg") != std::string::npos;
    }));
}

}  // namespace tpx::formats
