// SPDX-License-Identifier: Apache-2.0
// How much more blocks of consecutive ranks cost than any placement of ranks on devices, where all can be tried.

#include "lib/change/model_parcels.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/model_state.hpp"
#include "tests/unit/change/random_parcels.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <functional>

using namespace tpx;
using namespace tpx::testing;

namespace {

// The fewest bytes that come into hosts if each rank can run on any host with a free device; at most `limit`.
class AnyPlacement {
public:
    AnyPlacement(const Instance& made, std::uint64_t limit) : made_{made}, best_{limit} {
        for (const Host& host : made.hosts) free_.push_back(host.gpus);
        for (const Parcel& parcel : made.parcels.parcels) {
            unsigned held = 0;
            for (std::int32_t old : made.parcels.holders[parcel.holders]) held |= 1u << made.rank_locations[old].host;
            here_.push_back(held);
        }
        needs_.resize(made.parcels.new_ranks);
        for (std::size_t p = 0; p < here_.size(); ++p) {
            for (std::int32_t rank : made.parcels.needers[made.parcels.parcels[p].needers]) needs_[rank].push_back(p);
        }
        go(0, 0);
    }

    std::uint64_t best() const { return best_; }

private:
    void go(std::size_t rank, std::uint64_t bytes) {
        if (bytes >= best_) return;
        if (rank == needs_.size()) return void(best_ = bytes);
        for (std::size_t host = 0; host < free_.size(); ++host) {
            if (free_[host] == 0) continue;
            --free_[host];
            std::vector<std::size_t> came;
            std::uint64_t more = 0;
            for (std::size_t p : needs_[rank]) {
                if ((here_[p] >> host & 1u) != 0) continue;
                here_[p] |= 1u << host;
                came.push_back(p);
                more += made_.parcels.parcels[p].bytes;
            }
            go(rank + 1, bytes + more);
            for (std::size_t p : came) here_[p] &= ~(1u << host);
            ++free_[host];
        }
    }

    const Instance& made_;
    std::uint64_t best_;
    std::vector<int> free_;
    std::vector<unsigned> here_;  // hosts that hold or received each parcel, as bits
    std::vector<std::vector<std::size_t>> needs_;
};

struct Comparison {
    int cases = 0;
    int dearer = 0;
    std::uint64_t blocks = 0;
    std::uint64_t any = 0;
    double most = 1;

    void add(const Instance& made) {
        const std::uint64_t cost = place(made.parcels, made.hosts, made.rank_locations, false).crossing;
        const std::uint64_t best = AnyPlacement{made, cost}.best();
        ++cases;
        dearer += best < cost;
        blocks += cost;
        any += best;
        if (best != 0) most = std::max(most, static_cast<double>(cost) / static_cast<double>(best));
    }

    std::string text() const {
        return fmt::format("blocks cost more in {} of {} cases, {:.2f} % more bytes in all, {:.2f} times at most",
                           dearer, cases, 100 * (static_cast<double>(blocks) / static_cast<double>(any) - 1), most);
    }
};

std::vector<std::string> small_layouts(std::string_view more) {
    std::vector<std::string> layouts;
    for (int tp : {1, 2, 4, 8}) {
        for (int pp : {1, 2, 4, 8}) {
            for (int dp : {1, 2, 4, 8}) {
                if (tp * pp * dp <= 8 && tp * pp * dp > 1)
                    layouts.push_back(fmt::format("tp={},pp={},dp={}{}", tp, pp, dp, more));
            }
        }
    }
    return layouts;
}

}  // namespace

TEST_CASE("blocks of ranks and every placement of ranks on devices: random state") {
    RandomInstances random{23};
    Comparison comparison;
    for (int i = 0; i < 3000; ++i) comparison.add(random({4, 2, 6, 6, 12, false}));
    MESSAGE(comparison.text());
    CHECK(comparison.any <= comparison.blocks);
}

TEST_CASE("blocks of ranks and every placement of ranks on devices: layouts") {
    const ModelState model{"tiny",
                           8,
                           {{"qkv", {48, 16}, 0, 0, {0, 1, 2, 3, 4, 5, 6, 7}},
                            {"proj", {16, 16}, 1, 0, {0, 1, 2, 3, 4, 5, 6, 7}},
                            {"norm", {16}, -1, 0, {0, 1, 2, 3, 4, 5, 6, 7}},
                            {"embed", {64, 16}, 0, 0, {}, 0, true, true}},
                           {{Role::weight, DType::bf16}, {Role::exp_avg, DType::f32}}};
    int total = 0;
    int dearer = 0;
    for (const char* zero : {"", ",zero=1"}) {
        for (int gpus : {2, 4}) {
            Comparison all;
            Comparison tensor_parallel;  // tp of at least the devices of a host, before and after
            for (const std::string& from : small_layouts(zero)) {
                for (const std::string& to : small_layouts(zero)) {
                    const Layout old_layout = parse_layout(from);
                    const Layout new_layout = parse_layout(to);
                    Instance made;
                    made.parcels = model_parcels(model, old_layout, new_layout);
                    const int ranks = std::max(made.parcels.old_ranks, made.parcels.new_ranks);
                    made.hosts = uniform_hosts((ranks + gpus - 1) / gpus, gpus);
                    for (std::int32_t rank = 0; rank < made.parcels.old_ranks; ++rank)
                        made.rank_locations.push_back({rank / gpus, rank});
                    all.add(made);
                    if (std::min(old_layout.tp, new_layout.tp) >= gpus) tensor_parallel.add(made);
                }
            }
            MESSAGE(fmt::format("{} devices a host{}: {}", gpus, zero, all.text()));
            MESSAGE(fmt::format("{} devices a host{}, tp at least {}: {}", gpus, zero, gpus, tensor_parallel.text()));
            total += all.cases;
            dearer += all.dearer;
        }
    }
    // tpx-plan(5) contains these numbers.
    CHECK(total == 1444);
    CHECK(dearer == 572);
}
