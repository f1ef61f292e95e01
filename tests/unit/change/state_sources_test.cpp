// SPDX-License-Identifier: Apache-2.0
#include "lib/change/state_sources.hpp"

#include "lib/change/change.hpp"
#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tpx;

namespace {

/// Two hosts of two devices; ranks 0 to 2 hold state that new ranks need, rank 3 holds none.
struct Setup {
    std::vector<Host> hosts = uniform_hosts(2, 2);
    std::vector<RankLocation> rank_locations{{0, 0}, {0, 1}, {1, 2}, {1, 3}};
    Parcels parcels{.old_ranks = 4, .new_ranks = 1, .roles = {Role::weight}, .tensors = {"w"}};

    Setup() {
        const std::int32_t zero[] = {0};
        parcels.needers.add(zero);
        for (std::int32_t rank : {0, 1, 2}) {
            const std::int32_t holder[] = {rank};
            parcels.parcels.push_back({.holders = parcels.holders.add(holder), .bytes = 8});
        }
    }
};

std::string fault_of(const std::vector<StateSource>& sources, const std::vector<Host>& hosts) {
    try {
        require_one_iteration(sources, hosts);
        return "";
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::failure);
        return error.what();
    }
}

}  // namespace

TEST_CASE("sources are the hosts that hold state, and storage if it is read") {
    Setup setup;
    setup.hosts[1].iteration = 7;
    const auto found = [&](SourceKinds kinds) {
        return sources_of(setup.parcels, setup.hosts, setup.rank_locations, kinds, 9);
    };
    CHECK(found({.hosts = true}) == std::vector<StateSource>{{0, {}}, {1, 7}});
    CHECK(found({.storage = true}) == std::vector<StateSource>{{from_storage, 9}});
    CHECK(found({.hosts = true, .storage = true}).size() == 3);
    setup.rank_locations[2].host = 0;
    CHECK(found({.hosts = true}) == std::vector<StateSource>{{0, {}}});
    setup.hosts[0].lost = true;
    CHECK(found({.hosts = true}).empty());
}

TEST_CASE("iterations are not mixed, and an unknown one matches any other") {
    const std::vector<Host> hosts = uniform_hosts(3, 1);
    CHECK(fault_of({}, hosts) == "");
    CHECK(fault_of({{0, 5}, {1, {}}, {2, 5}, {from_storage, 5}}, hosts) == "");
    CHECK(fault_of({{0, {}}, {1, 5}, {2, 6}}, hosts).starts_with("host 'host1' holds iteration 5 and host 'host2'"));
    CHECK(fault_of({{0, 5}, {from_storage, 4}}, hosts).find("shared storage iteration 4") != std::string::npos);
}

TEST_CASE("a change between hosts of different iterations is refused") {
    Setup setup;
    setup.hosts[0].iteration = 5;
    setup.hosts[1].iteration = 5;
    const Change change = make_change(setup.parcels, setup.hosts, setup.rank_locations, {});
    CHECK(change.sources == std::vector<StateSource>{{0, 5}, {1, 5}});
    setup.hosts[1].iteration = 6;
    CHECK_THROWS_AS(make_change(setup.parcels, setup.hosts, setup.rank_locations, {}), Error);
    setup.hosts[1].lost = true;  // its state is read from storage instead
    ChangeOptions options{.state = StateMedium::shared, .may_read = true};
    options.storage_iteration = 5;
    CHECK(make_change(setup.parcels, setup.hosts, setup.rank_locations, options).sources.back() ==
          StateSource{from_storage, 5});
    options.storage_iteration = 4;
    CHECK_THROWS_AS(make_change(setup.parcels, setup.hosts, setup.rank_locations, options), Error);
}
