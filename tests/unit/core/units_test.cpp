// SPDX-License-Identifier: Apache-2.0
#include "lib/core/units.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

using namespace tpx;

TEST_CASE("sizes in bytes, decimal and binary") {
    CHECK(parse_bytes("0") == 0);
    CHECK(parse_bytes("4096") == 4096);
    CHECK(parse_bytes("4096 B") == 4096);
    CHECK(parse_bytes("64MiB") == 64u << 20);
    CHECK(parse_bytes("64 mib") == 64u << 20);
    CHECK(parse_bytes("64M") == 64u << 20);
    CHECK(parse_bytes("1.5GB") == 1'500'000'000);
    CHECK(parse_bytes("1kB") == 1000);
    CHECK(parse_bytes("0.5KiB") == 512);
    CHECK(parse_bytes("9223372036854775807") == 9223372036854775807u);
}

TEST_CASE("invalid sizes are refused") {
    for (const char* text : {"", "MiB", "-1", "1.5.2", "12 apples", "nan", "inf", "1e3", "8EiB", "9223372036854775808",
                             "18446744073709551616", "1 MiBx", " 1"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(parse_bytes(text), Error);
    }
}

TEST_CASE("rates in bytes and bits") {
    CHECK(parse_rate("25 GB/s") == 25e9);
    CHECK(parse_rate("200Gbit/s") == 25e9);
    CHECK(parse_rate("200 Gb/s") == 25e9);
    CHECK(parse_rate("1 Gbps") == 125e6);
    CHECK(parse_rate("1GiB/s") == 1073741824.0);
    CHECK(parse_rate("125000000") == 125e6);
    for (const char* text : {"", "0", "-1", "nan", "25 GB", "25 G", "fast", "1 GB/h", "25", "999"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(parse_rate(text), Error);
    }
}

TEST_CASE("human-readable sizes and times") {
    CHECK(format_bytes(0) == "0 B");
    CHECK(format_bytes(999) == "999 B");
    CHECK(format_bytes(1500) == "1.50 kB");
    CHECK(format_bytes(999'999) == "1.00 MB");
    CHECK(format_bytes(96.3e9) == "96.3 GB");
    CHECK(format_bytes(123e18) == "123 EB");
    CHECK(format_rate(25e9) == "25.0 GB/s");
    CHECK(format_seconds(0) == "0 s");
    CHECK(format_seconds(12.34e-6) == "12.3 us");
    CHECK(format_seconds(0.45) == "450 ms");
    CHECK(format_seconds(0.99999) == "1.00 s");
    CHECK(format_seconds(1.5) == "1.50 s");
    CHECK(format_seconds(119.9) == "2 min 00 s");
    CHECK(format_seconds(125) == "2 min 05 s");
    CHECK(format_seconds(12'000) == "3 h 20 min");
}
