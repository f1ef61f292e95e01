// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_parts.hpp"

#include "formats/megatron/torch_dist.hpp"
#include "formats/state/common_state.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/reading.hpp"
#include "tests/support/families.hpp"

#include <doctest/doctest.h>

namespace tpx::formats::megatron {

TEST_CASE("a tensor with fewer layers than the others of its stack is not written without them") {
    const Checkpoint source = open_torch_dist("testdata/megatron/muon/dist");
    Content content;
    content.tensors = source.catalogue.tensors;
    content.source = &source;
    content.layout.pp = 2;
    const Reading reading = read(content.tensors, test::families(), source.config);
    REQUIRE(reading.family != nullptr);
    content.reading = &reading;
    const Config args = args_of(*source.common);
    CHECK_NOTHROW(RankParts{content, args});
    for (Tensor& tensor : content.tensors)
        if (tensor.name == "decoder.layers.mlp.linear_fc1.weight") tensor.shape[0] = 1;
    CHECK_THROWS_WITH_AS((RankParts{content, args}),
                         "tensor 'decoder.layers.mlp.linear_fc1.weight': it has 1 layer, others have 2", Error);
}

}  // namespace tpx::formats::megatron
