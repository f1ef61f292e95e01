// SPDX-License-Identifier: Apache-2.0
#include "cmd/profile/job_hardware.hpp"

#include "formats/files/profile/hardware_file.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::cli;

TEST_CASE("any host name can be written to files") {
    CHECK(plain_host_name("gpu-07.rack_2.example.org") == "gpu-07.rack_2.example.org");
    CHECK(plain_host_name("a[0-1],b") == "a_0-1__b");
    CHECK(plain_host_name("\xc3\xa9\t\xff") == "____");
    CHECK(plain_host_name("") == "_");
    for (int byte = 1; byte < 256; ++byte) {
        Hardware hardware;
        hardware.hosts.emplace_back().name = plain_host_name({'n', static_cast<char>(byte), '1'});
        CAPTURE(byte);
        CHECK(formats::parse_hardware(formats::hardware_text(hardware), "host.toml").hosts[0].name ==
              hardware.hosts[0].name);
    }
}
