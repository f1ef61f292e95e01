// SPDX-License-Identifier: Apache-2.0
#include "lib/core/utf8.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tpx;

TEST_CASE("code points of one to four bytes") {
    const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    std::size_t at = 0;
    for (const char32_t code : {U'a', U'\u00e9', U'\u20ac', U'\U0001f600'}) CHECK(next_code_point(text, at) == code);
    CHECK(at == text.size());
    CHECK(is_valid_utf8(text));
}

TEST_CASE("bytes that are not UTF-8 are detected and kept") {
    for (const std::string bytes : {"\x80", "\xc3", "\xc3(", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                                    "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2\x82"}) {
        CAPTURE(bytes);
        std::size_t at = 0;
        CHECK(!next_code_point(bytes, at));
        CHECK(at == 0);
        CHECK(!is_valid_utf8("x" + bytes));
    }
}
