// SPDX-License-Identifier: Apache-2.0
#include "lib/model/estimate.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

using namespace tpx;

namespace {

ModelSize seven_billion() {
    ModelSize model;
    model.parameters = 6.74e9;
    model.layers = 32;
    model.hidden = 4096;
    model.heads = 32;
    model.sequence = 2048;
    return model;
}

double seconds(const char* layout, const std::vector<Host>& hosts, double batch = 64) {
    return estimate_step(seven_billion(), parse_layout(layout), hosts, batch).time.total();
}

}  // namespace

TEST_CASE("an estimate says what it assumes") {
    std::vector<Host> hosts = uniform_hosts(2, 8);
    CHECK(estimate_step(seven_billion(), parse_layout("tp=8,dp=2"), hosts, 64).assumed.size() == 3);
    for (Host& host : hosts) host.nic = 25e9;
    CHECK(estimate_step(seven_billion(), parse_layout("tp=8,dp=2"), hosts, 64).assumed.size() == 2);
    CHECK(estimate_step(seven_billion(), parse_layout("tp=8,dp=2"), hosts, 64, Parameters{}).assumed.empty());
}

TEST_CASE("estimates rank layouts as one would") {
    const std::vector<Host> hosts = uniform_hosts(4, 8);
    CHECK(seconds("tp=8,dp=4", hosts) < seconds("tp=32", hosts));      // tensor groups stay on their host
    CHECK(seconds("pp=4,dp=8", hosts) < seconds("pp=32", hosts));      // bubbles
    CHECK(seconds("tp=4,dp=8", hosts) < seconds("tp=4,dp=4", hosts));  // more GPUs
    CHECK(seconds("dp=16,pp=2,vpp=4", hosts) <= seconds("dp=16,pp=2", hosts));
}

TEST_CASE("lost hosts have no ranks and spare ones the last") {
    std::vector<Host> hosts = uniform_hosts(3, 4);
    hosts[0].lost = true;
    hosts[1].spare = true;
    CHECK(allocation_of(hosts, 6).gpus == std::vector<int>{4, 2});
    hosts[1].gpus = 1;
    CHECK(allocation_of(hosts, 5).gpus == std::vector<int>{4, 1});
    CHECK_THROWS_WITH_AS(allocation_of(hosts, 6), "6 ranks do not fit on 2 hosts with 5 GPUs in all", Error);
    CHECK_THROWS_AS(allocation_of({}, 1), Error);
}

TEST_CASE("lost devices have no ranks, and devices that would split a tensor group may stay idle") {
    std::vector<Host> hosts = uniform_hosts(3, 4);
    hosts[1].lost_devices = {2};
    CHECK(allocation_of(hosts, 11).gpus == std::vector<int>{4, 3, 4});
    CHECK(allocation_of(hosts, 8, 2).gpus == std::vector<int>{4, 2, 2});
    CHECK(allocation_of(hosts, 8, 4).gpus == std::vector<int>{4, 4});
    CHECK(seconds("tp=4,dp=2", hosts) == seconds("tp=4,dp=2", uniform_hosts(2, 4)));
}

TEST_CASE("rails are NICs") {
    std::vector<Host> hosts = uniform_hosts(2, 8);
    for (Host& host : hosts) host.rails = 4;
    CHECK(allocation_of(hosts, 16).gpus_per_nic == 2);
    for (Host& host : hosts) host.rails = 99;
    CHECK(allocation_of(hosts, 16).gpus_per_nic == 1);
}

TEST_CASE("the size of a model is read off its tensors") {
    ModelState state;
    state.name = "toy";
    state.layers = 3;
    state.classes.push_back({"embed", {1000, 256}});
    state.classes.push_back({"q", {256, 256}, 0, 0, {0, 1, 2}});
    state.classes.push_back({"expert", {512, 256}, 0, 0, {1, 2}, 8});
    const ModelSize size = size_of(state, 128, 2);
    CHECK(size.parameters == 1000 * 256 + 3 * 256 * 256 + 2 * 8 * 512 * 256);
    CHECK(size.active_parameters == 1000 * 256 + 3 * 256 * 256 + 2 * 2 * 512 * 256);
    CHECK(size.hidden == 256);
    CHECK(size.vocabulary == 1000);
    CHECK(size.layers == 3);
    CHECK(size.sequence == 128);
}
