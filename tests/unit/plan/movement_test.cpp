// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/movement.hpp"

#include "lib/core/error.hpp"
#include "lib/plan/cost.hpp"
#include "tests/unit/plan/random_sides.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>

using namespace tpx;
using namespace tpx::testing;

namespace {

using Element = std::pair<std::uint32_t, Box>;  // tensor and place

// The same counts, element by element.
struct Brute {
    std::vector<Bytes> roles;
    std::uint64_t bound = 0;
};

template <class Holder>
std::map<std::uint32_t, std::set<Element>> held(const Side& side, Holder holder) {
    std::map<std::uint32_t, std::set<Element>> by_holder;
    for (const Piece& piece : side.pieces)
        each_element(piece.box, [&](const Box& e) { by_holder[holder(piece.rank)].insert({piece.tensor, e}); });
    return by_holder;
}

Brute brute(const Change& change) {
    const auto rank = [](std::int32_t r) { return static_cast<std::uint32_t>(r); };
    const auto source_host = [&](std::int32_t r) { return change.source_hosts[r]; };
    const auto target_host = [&](std::int32_t r) { return change.target_hosts[r]; };
    auto ranks_have = held(change.source, rank);
    auto hosts_have = held(change.source, source_host);
    Brute result;
    result.roles.resize(change.roles.empty() ? 1 : *std::ranges::max_element(change.roles) + 1);
    const auto size = [&](const Element& e) { return std::uint64_t(itemsize(change.source.tensors[e.first].dtype)); };
    const auto role = [&](const Element& e) -> Bytes& {
        return result.roles[change.roles.empty() ? 0 : change.roles[e.first]];
    };
    for (const auto& [host, needed] : held(change.target, target_host)) {
        for (const Element& e : needed) {
            if (hosts_have[host].contains(e)) continue;
            role(e).other_host += size(e);
            result.bound += size(e);
        }
    }
    for (const auto& [r, needed] : held(change.target, rank)) {
        const bool stayed = r < change.source_hosts.size() && change.source_hosts[r] == change.target_hosts[r];
        for (const Element& e : needed) {
            role(e).needed += size(e);
            if (stayed && ranks_have[r].contains(e)) role(e).kept += size(e);
        }
    }
    for (Bytes& sum : result.roles) sum.same_host = sum.needed - sum.kept - sum.other_host;
    return result;
}

std::vector<std::uint32_t> random_hosts(Random& random, int ranks, int hosts) {
    std::vector<std::uint32_t> map(ranks);
    for (std::uint32_t& host : map) host = random.number(0, hosts - 1);
    return map;
}

// GPT-like: `layers` matrices, split over `tp` ranks a stage, replicated `dp` times; rank = (stage, replica, tp).
Pieces model(int layers, int tp, int dp, int pp) {
    Pieces made;
    for (int layer = 0; layer < layers; ++layer) {
        made.tensors.push_back({fmt::format("layer{}", layer), DType::bf16, {64, 32}});
        const int stage = layer / (layers / pp);
        for (int replica = 0; replica < dp; ++replica) {
            for (int t = 0; t < tp; ++t) {
                Piece piece;
                piece.tensor = layer;
                piece.box = {part({0, 64}, tp, t), {0, 32}};
                piece.rank = (stage * dp + replica) * tp + t;
                made.pieces.push_back(piece);
            }
        }
    }
    return made;
}

Movement move_model(const Pieces& from, const Pieces& to, int from_ranks, int to_ranks, int gpus) {
    const std::vector<Host> hosts = uniform_hosts((std::max(from_ranks, to_ranks) + gpus - 1) / gpus, gpus);
    const auto source_hosts = host_of_rank(hosts, from_ranks);
    const auto target_hosts = host_of_rank(hosts, to_ranks);
    return movement({from.side(), to.side(), hosts, source_hosts, target_hosts, {}});
}

}  // namespace

TEST_CASE("movement is what a count element by element says, and meets the bound") {
    Random random{21};
    for (int i = 0; i < 300; ++i) {
        const std::vector<Tensor> tensors = random.tensors(random.number(1, 4));
        const int old_ranks = random.number(1, 5);
        const int new_ranks = random.number(1, 5);
        const Pieces from = random.cover(tensors, old_ranks);
        const Pieces to = random.cover(tensors, new_ranks);
        const std::vector<Host> hosts = uniform_hosts(random.number(1, 3), 2);
        const auto source_hosts = random_hosts(random, old_ranks, static_cast<int>(hosts.size()));
        const auto target_hosts = random_hosts(random, new_ranks, static_cast<int>(hosts.size()));
        std::vector<std::uint32_t> roles(tensors.size());
        for (std::uint32_t& role : roles) role = random.number(0, 2);
        const Change change{from.side(), to.side(), hosts, source_hosts, target_hosts, roles};

        const Movement result = movement(change);
        const Brute expected = brute(change);
        CHECK(result.roles == expected.roles);
        CHECK(result.bound == expected.bound);
        CHECK(result.meets_bound());

        Bytes total;
        for (const Bytes& role : result.roles) {
            CHECK(role.needed == role.kept + role.same_host + role.other_host);
            total += role;
        }
        CHECK(result.total == total);

        auto have = held(change.source, [&](std::int32_t r) { return source_hosts[r]; });
        auto need = held(change.target, [&](std::int32_t r) { return target_hosts[r]; });
        std::vector<Load> loads(hosts.size());
        std::set<std::pair<std::uint32_t, Element>> arrived;
        for (const Crossing& c : result.crossings) {
            each_element(c.box, [&](const Box& e) {
                const Element element{c.tensor, e};
                CHECK(have[c.from].contains(element));
                CHECK_FALSE(have[c.to].contains(element));
                CHECK(need[c.to].contains(element));
                CHECK(arrived.insert({c.to, element}).second);
                loads[c.from].nic_out += itemsize(tensors[c.tensor].dtype);
                loads[c.to].nic_in += itemsize(tensors[c.tensor].dtype);
            });
        }
        for (std::size_t h = 0; h < hosts.size(); ++h) {
            CHECK(result.hosts[h].nic_in == loads[h].nic_in);
            CHECK(result.hosts[h].nic_out == loads[h].nic_out);
        }
    }
}

TEST_CASE("a layout that stays moves nothing") {
    const Pieces side = model(8, 2, 2, 2);
    const Movement result = move_model(side, side, 8, 8, 4);
    CHECK(result.total.kept == result.total.needed);
    CHECK(result.total.needed == 2 * 8 * 64 * 32 * 2);
    CHECK(result.crossings.empty());
}

TEST_CASE("dropping replicas moves nothing, adding them moves each byte into a host once") {
    const Pieces two = model(8, 4, 2, 1);
    const Pieces one = model(8, 4, 1, 1);
    CHECK(move_model(two, one, 8, 4, 4).total.other_host == 0);
    const Movement grow = move_model(one, two, 4, 8, 4);
    CHECK(grow.total.other_host == 8 * 64 * 32 * 2);
    // Two more replicas on the second host cost no more crossings than one.
    const Movement more = move_model(one, model(8, 4, 3, 1), 4, 12, 8);
    CHECK(more.total.other_host == 8 * 64 * 32 * 2);
    CHECK(more.meets_bound());
}

TEST_CASE("sources of replicas are shared out over their hosts") {
    const Pieces from = model(8, 1, 3, 1);  // three hosts of one rank, all hold everything
    const Pieces to = model(8, 1, 4, 1);
    const Movement result = move_model(from, to, 3, 4, 1);
    const std::uint64_t layer = 64 * 32 * 2;
    CHECK(result.hosts[3].nic_in == 8 * layer);
    for (int h = 0; h < 3; ++h) CHECK(result.hosts[h].nic_out <= 3 * layer);
}

TEST_CASE("a host with a slow NIC sends less") {
    const Pieces from = model(9, 1, 2, 1);
    const Pieces to = model(9, 1, 3, 1);
    std::vector<Host> hosts = uniform_hosts(3, 1);
    hosts[0].nic = 1e9;
    hosts[1].nic = 2e9;
    const auto source_hosts = host_of_rank(hosts, 2);
    const auto target_hosts = host_of_rank(hosts, 3);
    const Movement result = movement({from.side(), to.side(), hosts, source_hosts, target_hosts, {}});
    CHECK(result.hosts[1].nic_out == 2 * result.hosts[0].nic_out);
}

TEST_CASE("what cannot be placed or found is refused") {
    const Pieces side = model(2, 2, 1, 1);
    const std::vector<Host> hosts = uniform_hosts(1, 2);
    const auto map = host_of_rank(hosts, 2);
    CHECK_THROWS_WITH_AS(host_of_rank(hosts, 3), "3 ranks do not fit on 1 hosts with 2 GPUs in all", Error);
    CHECK_THROWS_AS(uniform_hosts(0, 8), Error);
    const std::vector<std::uint32_t> short_map{0};
    CHECK_THROWS_WITH_AS(movement({side.side(), side.side(), hosts, short_map, map, {}}),
                         "tensor 'layer0': rank 1 has no host (1 ranks, 1 hosts)", Error);
    Pieces holed = side;
    holed.pieces.erase(holed.pieces.begin());
    CHECK_THROWS_WITH_AS(movement({holed.side(), side.side(), hosts, map, map, {}}),
                         "tensor 'layer0': nothing holds [0:32, 0:32] (1024 of 1024 elements)", Error);
}

TEST_CASE("the resource that takes longest is named, with the rates assumed") {
    std::vector<Host> hosts = uniform_hosts(2, 8);
    hosts[1].nic = 1e9;
    std::vector<Load> loads(2);
    loads[0] = {0, 0, 8'000'000'000, 2'000'000'000, 10'000'000'000};
    loads[1] = {0, 0, 2'000'000'000, 8'000'000'000, 10'000'000'000};
    const Prediction prediction = predict(hosts, loads);
    CHECK(prediction.resources[prediction.binding].resource == "NIC out");
    CHECK(prediction.resources[prediction.binding].host == 1);
    CHECK_FALSE(prediction.resources[prediction.binding].assumed);
    CHECK(prediction.seconds() == doctest::Approx(8));
    CHECK(prediction.resources[0].seconds == 0);
    CHECK(prediction.resources[0].assumed);
    CHECK(prediction.resources[2].seconds == doctest::Approx(2));
    CHECK(prediction.resources[4].seconds == doctest::Approx(1));
}

TEST_CASE("bytes through storage are divided by disk rates, to the byte") {
    std::vector<Host> hosts = uniform_hosts(3, 1);
    hosts[0].disk_read = 1e9;
    hosts[1].disk_read = 2e9;
    hosts[2].disk_read = 1e9;
    const std::vector<Load> loads = storage_loads(hosts, 4'000'000'001, 10);
    CHECK(loads[0].disk_read + loads[1].disk_read + loads[2].disk_read == 4'000'000'001);
    CHECK(loads[1].disk_read == 2'000'000'001);
    CHECK(loads[0].disk_write + loads[1].disk_write + loads[2].disk_write == 10);
    CHECK(predict(hosts, loads).resources[0].seconds == doctest::Approx(1));
}
