// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/device/links.hpp"

#include "lib/change/moves.hpp"
#include "lib/core/box.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

using namespace tpx;

namespace {

constexpr int host_count = 3, gpu_count = 4;

int below(std::mt19937& random, int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); }

/// Symmetric links between the GPUs of a host, drawn at random.
GpuLinks random_links(std::mt19937& random) {
    GpuLinks links(gpu_count, std::vector<MemoryLink>(gpu_count));
    for (std::size_t a = 0; a < gpu_count; ++a)
        for (std::size_t b = 0; b <= a; ++b) {
            const auto kind = a == b ? LinkClass::same_gpu : static_cast<LinkClass>(1 + below(random, 3));
            links[a][b] = links[b][a] = {kind, a == b ? 0 : below(random, 3)};
        }
    return links;
}

/// Pieces of [0, 24) of one tensor that cover it: a cut, of which each part has up to three replicas.
std::vector<Piece> random_pieces(std::mt19937& random) {
    std::vector<Piece> pieces;
    for (Index begin = 0; begin < 24;) {
        const Index end = std::min<Index>(24, begin + 1 + below(random, 12));
        for (int replica = below(random, 3); replica >= 0; --replica)
            pieces.push_back({0, 0, 0, {{begin, end}}, {1}, -1});
        begin = end;
    }
    return pieces;
}

std::vector<Endpoint> random_places(std::mt19937& random, std::size_t count) {
    std::vector<Endpoint> places;
    for (std::size_t k = 0; k < count; ++k)
        places.push_back({below(random, host_count), below(random, gpu_count + 1) - 1});
    return places;
}

/// How many links are better, by the definition.
int steps(const Endpoint& from, const Endpoint& to, const GpuLinks& links) {
    const bool on_gpus = from.gpu >= 0 && to.gpu >= 0;
    if (from.host != to.host) return on_gpus && from.gpu == to.gpu ? 1000 : 2000;
    if (!on_gpus) return from.gpu < 0 && to.gpu < 0 ? 300 : 301;
    if (from == to) return 0;
    const MemoryLink& link = links[std::size_t(from.gpu)][std::size_t(to.gpu)];
    return (link.kind == LinkClass::nvlink ? 100 : link.kind == LinkClass::pcie ? 200 : 300) + link.rank;
}

}  // namespace

TEST_CASE("each element comes from a nearest source, in layouts, places and links drawn at random") {
    for (unsigned seed = 0; seed < 500; ++seed) {
        CAPTURE(seed);
        std::mt19937 random{seed};
        const std::vector<Tensor> tensors{{"w", DType::f32, {24}}};
        const std::vector<Piece> sources = random_pieces(random), targets = random_pieces(random);
        const std::vector<Endpoint> from = random_places(random, sources.size()),
                                    to = random_places(random, targets.size());
        std::vector<GpuLinks> links;
        for (int host = 0; host < host_count; ++host) links.push_back(random_links(random));
        const auto of_pair = [&](std::uint32_t source, std::uint32_t target) {
            return distance(link_between(from[source], to[target], links[std::size_t(to[target].host)]));
        };
        const Moves moves = make_moves({tensors, sources}, {tensors, targets}, of_pair);
        Index moved = 0, wanted = 0;
        for (const Piece& piece : targets) wanted += volume(piece.box);
        for (const Move& move : moves) {
            moved += volume(move.box);
            const auto rated = [&](std::uint32_t source) {
                return steps(from[source], to[move.target], links[std::size_t(to[move.target].host)]);
            };
            for (std::uint32_t other = 0; other < sources.size(); ++other)
                if (!empty(intersect(sources[other].box, move.box))) REQUIRE(rated(move.source) <= rated(other));
        }
        CHECK(moved == wanted);
    }
}

TEST_CASE("links of GPUs return from their text, and pairs of unknown GPUs are peers") {
    std::mt19937 random{7};
    const GpuLinks links = random_links(random);
    CHECK(parse_gpu_links(to_text(links)) == links);
    CHECK(parse_gpu_links("").empty());
    CHECK(link_between({0, 0}, {0, 9}, links).kind == LinkClass::pcie);
    CHECK(link_between({0, 9}, {0, 9}, links).kind == LinkClass::same_gpu);
}

TEST_CASE("bytes of links are told with their kind") {
    LinkBytes bytes;
    CHECK(to_text(bytes).empty());
    bytes[LinkClass::nvlink] = 2000;
    bytes[LinkClass::network] = 3000;
    CHECK(to_text(bytes) == "2.00 kB by NVLink, 3.00 kB across rails");
    bytes += bytes;
    CHECK(bytes[LinkClass::nvlink] == 4000);
}
