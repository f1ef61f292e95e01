// SPDX-License-Identifier: Apache-2.0
#include "lib/core/unexpected.hpp"

#include <doctest/doctest.h>

#include <new>
#include <stdexcept>
#include <string>

using namespace tpx;

TEST_CASE("T11: an exception of a library becomes an Error that names the file and asks to be reported") {
    try {
        reading("a.pt", [] { throw std::out_of_range{"substr"}; });
        FAIL("nothing was thrown");
    } catch (const Error& error) {
        CHECK(error.what() == std::string{"a.pt: internal error: substr; please report this"});
        CHECK(error.exit() == Exit::failure);
    }
    CHECK(reading("a.pt", [] { return 7; }) == 7);
}

TEST_CASE("lack of memory is not reported as a bug of tpx, and an Error stays unchanged") {
    CHECK(unexpected(std::bad_alloc{}).what() == std::string{"out of memory"});
    const Error own{Exit::no, "differs"};
    CHECK(unexpected(own).exit() == Exit::no);
    CHECK(unexpected(own).what() == std::string{"differs"});
    CHECK_THROWS_WITH_AS(reading("a.pt", [&] { throw own; }), "differs", Error);
}
