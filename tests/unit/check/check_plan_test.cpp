// SPDX-License-Identifier: Apache-2.0
#include "lib/check/check_plan.hpp"

#include "formats/files/plan/plan_tables.hpp"
#include "lib/core/error.hpp"
#include "tests/unit/change/random_parcels.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <tuple>

using namespace tpx;
using namespace tpx::testing;

namespace {

/// Adds up parcels that differ only in bytes.
void add_up(std::vector<Parcel>& parcels) {
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, bool>, Parcel> sums;
    for (const Parcel& parcel : parcels) {
        const auto [at, fresh] = sums.try_emplace({parcel.holders, parcel.needers, parcel.role, parcel.recut}, parcel);
        if (!fresh) at->second.bytes += parcel.bytes;
    }
    parcels.clear();
    for (const auto& [key, parcel] : sums) parcels.push_back(parcel);
}

struct Made {
    Change plan;
    PlanTables tables;
};

std::optional<Made> make(RandomInstances& random, const Extent& extent) {
    Instance instance = random(extent);
    add_up(instance.parcels.parcels);
    Made made;
    Change& plan = made.plan;
    plan.state = static_cast<StateMedium>(random.number(0, 2));
    plan.hosts = instance.hosts;
    plan.old_ranks = instance.rank_locations;
    const int ranks = instance.parcels.new_ranks;
    const int group = extent.devices ? random.number(1, 4) : 1;
    const int tp = ranks % group == 0 ? group : 1;
    plan.placement = place(instance.parcels, plan.hosts, plan.old_ranks, random.chance(20), tp);
    made.tables.to = fmt::format("tp={},dp={}", tp, ranks / tp);
    try {
        plan.relocation = relocate(instance.parcels, plan.hosts, plan.old_ranks, plan.placement, plan.state,
                                   plan.state == StateMedium::shared);
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::no);  // a lost host had the only copy
        return std::nullopt;
    }
    plan.parcels = std::move(instance.parcels);
    made.tables.hosts = formats::to_tables(plan, nullptr);
    return made;
}

}  // namespace

TEST_CASE("placements and relocations of random instances pass the check") {
    RandomInstances random{3};
    int done = 0, relayed = 0, bounded_by_disk = 0;
    for (int round = 0; round < 4000; ++round) {
        CAPTURE(round);
        const Extent extent{.hosts = 6, .ranks = 12, .parcels = 10, .bytes = 1000, .devices = round % 2 == 1};
        const std::optional<Made> made = make(random, extent);
        if (!made) continue;
        const PlanCheck found = check_plan(made->tables);
        REQUIRE(found.fault == "");
        CHECK(found.crossing == made->plan.relocation.bound);
        ++done;
        relayed += made->plan.relocation.sending.hosts.size() > 1;
        bounded_by_disk += !made->plan.relocation.sending.disks.empty();
    }
    CHECK(done > 2000);
    CHECK(relayed > 50);
    CHECK(bounded_by_disk > 50);
}

TEST_CASE("a worse choice fails the check, even if all its figures are right") {
    RandomInstances random{4};
    int placements = 0, senders = 0;
    for (int round = 0; round < 1000; ++round) {
        CAPTURE(round);
        const std::optional<Made> made = make(random, {.ranks = 12, .bytes = 1000, .lost = false});
        if (!made || !made->plan.placement.is_proven()) continue;
        // Two blocks are exchanged: the figures are those of the new placement, the prices those of the best one.
        Change plan = made->plan;
        Placement& placement = plan.placement;
        if (placement.blocks.size() >= 2 && plan.hosts[0].gpus == plan.hosts[1].gpus) {
            std::swap(placement.blocks[0].host, placement.blocks[1].host);
            const std::vector<std::int32_t> firsts = first_devices(plan.hosts);
            for (const Block& block : placement.blocks) {
                for (std::int32_t rank = block.begin; rank < block.end; ++rank)
                    placement.devices[rank] = firsts[block.host] + rank - block.begin;
            }
            plan.relocation = relocate(plan.parcels, plan.hosts, plan.old_ranks, placement, plan.state, true);
            placement.crossing = plan.relocation.bound;
            if (placement.crossing > made->plan.placement.crossing &&
                placement.blocks[1].end - placement.blocks[1].begin <= plan.hosts[0].gpus) {
                CHECK(check_plan({.hosts = formats::to_tables(plan, nullptr)}).fault != "");
                ++placements;
            }
        }
        // Senders chosen as if all NICs were alike, with the bound of the best senders.
        plan = made->plan;
        for (Host& host : plan.hosts) host.nic = 1;
        const Relocation other = relocate(plan.parcels, plan.hosts, plan.old_ranks, plan.placement, plan.state, true);
        plan.hosts = made->plan.hosts;
        plan.relocation = other;
        plan.relocation.sending = made->plan.relocation.sending;
        bool is_slower = false;
        for (std::size_t h = 0; h < plan.hosts.size(); ++h) {
            const double rate = plan.hosts[h].nic.value_or(default_rates.nic);
            is_slower |= static_cast<double>(other.hosts[h].nic_out) > plan.relocation.sending.seconds * rate + 3;
        }
        if (!is_slower) continue;
        CHECK(check_plan({.hosts = formats::to_tables(plan, nullptr)}).fault.find("longer than") != std::string::npos);
        ++senders;
    }
    CHECK(placements > 20);
    CHECK(senders > 20);
}

TEST_CASE("ranks or state on lost devices, split groups and invalid groups fail the check") {
    RandomInstances random{8};
    int done = 0, cut = 0;
    for (int round = 0; round < 1000; ++round) {
        CAPTURE(round);
        const std::optional<Made> made =
            make(random, {.hosts = 5, .gpus = 4, .ranks = 12, .bytes = 1000, .devices = true});
        if (!made) continue;
        PlanTables tables = made->tables;
        HostTables& hosts = *tables.hosts;
        const auto lose = [&](std::int32_t device) {
            hosts.lost_devices.push_back(static_cast<std::uint32_t>(device));
            std::ranges::sort(hosts.lost_devices);
        };
        lose(hosts.new_devices.back());
        REQUIRE(check_plan(tables).fault ==
                fmt::format("new rank {}: device {} is lost", hosts.new_devices.size() - 1, hosts.new_devices.back()));
        tables = made->tables;
        ++hosts.group;
        REQUIRE(check_plan(tables).fault != "");
        ++done;
        // Blocks are cut as if there were no groups.
        tables = made->tables;
        Change plan = made->plan;
        if (plan.placement.group == 1) continue;
        plan.placement = place(plan.parcels, plan.hosts, plan.old_ranks, !plan.placement.is_proven());
        plan.placement.group = made->plan.placement.group;
        if (split_groups(plan.placement.blocks, plan.placement.group) ==
            split_groups(made->plan.placement.blocks, plan.placement.group))
            continue;
        plan.relocation = relocate(plan.parcels, plan.hosts, plan.old_ranks, plan.placement, plan.state, true);
        tables.hosts = formats::to_tables(plan, nullptr);
        REQUIRE(check_plan(tables).fault.find("block") == 0);
        ++cut;
    }
    CHECK(done > 500);
    CHECK(cut > 30);
}

TEST_CASE(
    "bytes that are forwarded too early or in a circle are found, as are two partners in a round and too much "
    "staging") {
    HostTables tables;
    tables.state = "memory";
    const auto host = [&](const char* name) {
        tables.hosts.name.emplace_back(name);
        tables.hosts.gpus.push_back(1);
        for (auto* rates : {&tables.hosts.nic, &tables.hosts.disk_read, &tables.hosts.disk_write, &tables.hosts.memory})
            rates->push_back(1);
        tables.hosts.switch_group.emplace_back();
        tables.hosts.rails.push_back(1);
        tables.hosts.lost.push_back(0);
        tables.hosts.spare.push_back(0);
        tables.hosts.price.push_back(0);
        for (auto* loads : {&tables.loads.disk_read, &tables.loads.disk_write, &tables.loads.nic_in,
                            &tables.loads.nic_out, &tables.loads.memory, &tables.loads.staging})
            loads->push_back(0);
    };
    for (const char* name : {"a", "b", "c"}) host(name);
    tables.old_ranks = {{0}, {0}};
    tables.new_devices = {0, 1, 2};
    tables.holders = {{0, 1}, {0}};
    tables.needers = {{0, 3}, {0, 1, 2}};
    tables.roles = {{"weight"}, {""}, {0}, {0}, {0}, {0}, {0}, {0}};
    tables.tensors = {"w"};
    tables.parcels = {{0}, {0}, {0}, {0}, {0}, {10}, {2}};
    tables.window = 30;
    tables.blocks = {{0, 1, 2}, {1, 2, 3}, {0, 1, 2}, {10, 10, 10}};
    tables.hosts.price[0] = -10;
    tables.crossing = 20;
    const auto fault = [&] { return check_plan({.hosts = tables}).fault; };
    tables.transfers = {{0, 0}, {2, 1}, {1, 2}, {0, 0}, {1, 1}, {0, 0}, {10, 10}};
    CHECK(fault() == "parcel 0: host 'c' forwards bytes 0 to 10 in round 0, but has them after round 0");
    tables.transfers.from = {0, 1};
    tables.transfers.forwards = {0, 0};
    CHECK(fault() == "parcel 0: transfer 1 has the wrong value of forwards");
    tables.transfers.forwards = {0, 1};
    tables.transfers.round = {1, 0};
    CHECK(fault() == "parcel 0: host 'b' forwards bytes 0 to 10 in round 0, but has them after round 1");
    tables.transfers.round = {0, 1};
    CHECK(fault() == "host 'a': 0 bytes of staging are stored, 10 counted");
    tables.loads.staging = {10, 10, 10};
    CHECK(fault() == "rounds: 0 are stored, 2 counted");
    tables.transfers.to_rank = {1, 2};
    CHECK(fault() == "transfers: columns of 2 and 0 rows");
    tables.transfers.from_rank = {0, 1};
    CHECK(fault() == "rounds: 0 are stored, 2 counted");
    tables.transfers.from_rank = {0, 0};
    CHECK(fault() == "parcel 0: transfer 1 comes from new rank 0, but transfer 0 brought bytes to rank 1");
    tables.transfers.from_rank = {1, 1};
    CHECK(fault() == "parcel 0: transfer 0 comes from old rank 1, which is not on host 'a' or holds none of it");
    tables.transfers.from_rank = {0, 1};
    tables.transfers.to_rank = {2, 2};
    CHECK(fault() == "parcel 0: transfer 0 goes to new rank 2, which is not on host 'b' or needs none of it");
    tables.transfers.from_rank.clear();
    tables.transfers.to_rank.clear();
    tables.window = 9;
    CHECK(fault() == "host 'a': keeps 10 bytes in a round, more than the window of 9");
    tables.window = 30;
    tables.transfers.begin = {0, 3};
    tables.transfers.end = {3, 10};
    tables.transfers.to = {1, 1};
    tables.transfers.from = {0, 0};
    tables.transfers.forwards = {0, 0};
    tables.new_devices = {0, 1};
    tables.needers = {{0, 2}, {0, 1}};
    tables.blocks = {{0, 1}, {1, 2}, {0, 1}, {10, 10}};
    tables.crossing = 10;
    CHECK(fault() == "parcel 0: transfer 0 ends inside an element of 2 bytes");
    tables.new_devices = {0, 1, 2};
    tables.needers = {{0, 3}, {0, 1, 2}};
    tables.blocks = {{0, 1, 2}, {1, 2, 3}, {0, 1, 2}, {10, 10, 10}};
    tables.crossing = 20;
    tables.transfers = {{0, 0}, {0, 0}, {1, 2}, {0, 0}, {0, 0}, {0, 0}, {10, 10}};
    tables.loads.staging = {20, 10, 10};
    tables.rounds = 1;
    CHECK(fault() == "round 0: host 'a' sends to two hosts");
    tables.transfers.round = {0, 1};
    tables.rounds = 2;
    tables.loads.staging = {10, 10, 10};
    CHECK(fault().starts_with("role 'weight': 0 bytes needed are stored, 30 counted"));
}

TEST_CASE("sources must have the same iteration and hold state") {
    RandomInstances random{6};
    std::optional<Made> made;
    while (!made || made->plan.state != StateMedium::shared) made = make(random, {.lost = false});
    PlanTables tables = made->tables;
    REQUIRE(made->plan.old_ranks.front().host >= 0);
    const auto host = static_cast<std::uint32_t>(made->plan.old_ranks.front().host);
    tables.hosts->sources = {{host, storage_host}, {5, 5}};
    CHECK(check_plan(tables).fault == "");
    tables.hosts->sources.iteration[1] = 6;
    CHECK(check_plan(tables).fault.find("mixed") != std::string::npos);
    tables.hosts->sources = {{storage_host}, {5}};
    tables.hosts->state = "memory";
    CHECK(check_plan(tables).fault.find("holds no state") != std::string::npos);
    tables.hosts->sources = {{host, host}, {5, 5}};
    CHECK(check_plan(tables).fault.find("ascend") != std::string::npos);
}
