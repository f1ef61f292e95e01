// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/launch_script.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

using namespace tpx;

TEST_CASE("a launch script lists hosts in the order of their ranks, with devices in the order of the ranks") {
    std::vector<Host> hosts = uniform_hosts(4, 2);
    hosts[1].lost = true;
    const Placement placement{.devices = {5, 4, 0},
                              .blocks = {{.begin = 0, .end = 2, .host = 2}, {.begin = 2, .end = 3, .host = 0}}};
    const std::string text = formats::launch_script(hosts, placement, "dp=3");
    CHECK(text.find("\nhost2 0 2 1,0\nhost0 2 1 0\nhost3 3 0 -\nEND\n") != text.npos);
    CHECK(text.find("\nranks=3\nnodes=2\nmaster=host2\n") != text.npos);
    CHECK(text.find("dp=3 where") != text.npos);
    for (const char* key : {"@RANKS@", "@LAYOUT@", "@NODES@", "@HOSTS@", "@MASTER@", "@TABLE@", "@DATA@"})
        CHECK(text.find(key) == text.npos);
}

TEST_CASE("a launch script has a line for each block of a host") {
    const std::vector<Host> hosts = uniform_hosts(2, 2);
    const Placement placement{
        .devices = {0, 2, 1},
        .blocks = {
            {.begin = 0, .end = 1, .host = 0}, {.begin = 1, .end = 2, .host = 1}, {.begin = 2, .end = 3, .host = 0}}};
    const std::string text = formats::launch_script(hosts, placement, "dp=3");
    CHECK(text.find("\nhost0 0 1 0\nhost1 1 1 0\nhost0 2 1 1\nEND\n") != text.npos);
    CHECK(text.find(", 3 on 2 hosts:\n") != text.npos);
    CHECK(text.find("\nranks=3\nnodes=3\nmaster=host0\n") != text.npos);
}

TEST_CASE("a launch script passes each rank the folders of its state and data") {
    const std::vector<Host> hosts = uniform_hosts(2, 1);
    const Placement placement{.devices = {1, 0},
                              .blocks = {{.begin = 0, .end = 1, .host = 1}, {.begin = 1, .end = 2, .host = 0}}};
    const formats::LaunchFolders folders{.states = {"/local/a b", "/local/c"}, .data = {"/data/a b", "/data/c"}};
    const std::string text = formats::launch_script(hosts, placement, "dp=2", folders);
    CHECK(text.find("\nhost1 0 1 0 /local/c\nhost0 1 1 0 /local/a b\nEND\n") != text.npos);
    CHECK(text.find("\nhost0 /data/a b\nhost1 /data/c\nEND\n") != text.npos);
    const formats::LaunchFolders broken{.states = {"/local/a\nb", "/local/c"}, .data = {}};
    CHECK_THROWS_AS(formats::launch_script(hosts, placement, "dp=2", broken), Error);
    const formats::LaunchFolders broken_data{.states = {}, .data = {"/data/a\nb", "/data/c"}};
    CHECK_THROWS_AS(formats::launch_script(hosts, placement, "dp=2", broken_data), Error);
}

TEST_CASE("host names that a shell or launcher would misread are refused") {
    const Placement placement{.devices = {0}, .blocks = {{.begin = 0, .end = 1, .host = 0}}};
    for (const char* name : {"a b", "a;b", "-n", "a:2", "$(id)", "END\nid", ""}) {
        std::vector<Host> hosts = uniform_hosts(1, 1);
        hosts[0].name = name;
        CHECK_THROWS_AS(formats::launch_script(hosts, placement, "dp=1"), Error);
    }
}
