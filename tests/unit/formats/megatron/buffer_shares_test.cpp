// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/buffer_shares.hpp"

#include "formats/open_source.hpp"
#include "formats/rules/rules.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace tpx::formats {
namespace {

using Held = std::set<std::tuple<std::string, Box, std::int32_t>>;

bool is_state(std::string_view name) { return name.starts_with("optimizer.state."); }

std::vector<Piece> shares_in(const Source& source, const Layout& layout) {
    const Content content{.tensors = source.checkpoint.catalogue.tensors, .layout = layout, .reading = &source.reading};
    return buffer_shares(content, source.reading.config);
}

Held held(std::span<const Tensor> tensors, std::span<const Piece> pieces) {
    Held found;
    for (const Piece& piece : pieces) {
        const Tensor& tensor = tensors[piece.tensor];
        if (is_state(tensor.name)) found.emplace(tensor.name, piece.box, piece.rank);
    }
    return found;
}

/// Elements of optimizer state by the part of tensor parallelism of the rank that holds them.
std::map<int, Index> elements_by_part(std::span<const Piece> pieces, int tp) {
    std::map<int, Index> elements;
    for (const Piece& piece : pieces) elements[piece.rank % tp] += volume(piece.box);
    return elements;
}

}  // namespace

TEST_CASE("Megatron's ranks wrote the parts of buckets that buffer_shares() gives them") {
    const std::filesystem::path folder = test::fixtures();
    if (folder.empty()) return;
    const Families families = load_families({});
    for (const std::string name : {"llama-opt-dist-tp1pp1dp2-dp_reshardable", "llama-opt-dist-tp1pp1dp4-dp_reshardable",
                                   "llama-opt-dist-tp1pp1dp4-dp_reshardable-buckets",
                                   "llama-opt-dist-tp2pp1dp2-dp_reshardable", "gpt2-x-dist-tp1pp2dp2-dpr-b5000"}) {
        CAPTURE(name);
        const Source source = open_source(folder / "megatron" / name / "ckpt", families, {});
        REQUIRE(source.layout);
        REQUIRE(source.layout->zero == 1);
        const Catalogue& catalogue = source.checkpoint.catalogue;
        const Held written = held(catalogue.tensors, catalogue.pieces);
        const Held expected = held(catalogue.tensors, shares_in(source, *source.layout));
        CHECK(written.size() > 30);
        // Of replicated parameters, and of the embedding that two stages have, the checkpoint keeps one copy.
        const bool has_copies = source.layout->pp > 1 || source.layout->tp > 1;
        CHECK((has_copies ? written.size() < expected.size() : written.size() == expected.size()));
        CHECK(std::ranges::includes(expected, written));
    }
}

TEST_CASE("the ranks that share a buffer hold each element of it once, and about equally many") {
    const Families families = load_families({});
    const Source source = open_source("testdata/llama-opt/legacy-tp2-dp2", families, {});
    const std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
    const auto alone = elements_by_part(shares_in(source, {.tp = 2, .zero = 1}), 2);
    REQUIRE(alone.size() == 2);
    for (const int dp : {1, 2, 3, 4, 7}) {
        CAPTURE(dp);
        const Layout layout{.tp = 2, .dp = dp, .zero = 1};
        const std::vector<Piece> pieces = shares_in(source, layout);
        CHECK(elements_by_part(pieces, 2) == alone);
        std::map<int, Index> of_rank;
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            of_rank[pieces[i].rank] += volume(pieces[i].box);
            CHECK(is_state(tensors[pieces[i].tensor].name));
            for (std::size_t j = 0; j < i; ++j) {
                const bool same_part = pieces[i].rank % 2 == pieces[j].rank % 2;
                if (same_part && pieces[i].tensor == pieces[j].tensor)
                    REQUIRE(empty(intersect(pieces[i].box, pieces[j].box)));
            }
        }
        CHECK(std::ssize(of_rank) == layout.ranks());
        // Parts are equal if the padding at the end of the bucket and the gaps before parameters are included.
        const Index equal = alone.at(0) / dp;
        const Index padding = 3 * (std::lcm<Index>(dp, 128) + 64 * 16);
        for (const auto& [rank, elements] : of_rank) CHECK(std::abs(elements - equal) <= padding);
    }
}

}  // namespace tpx::formats
