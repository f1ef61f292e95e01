// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/text.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>

using namespace tpx;
using namespace tpx::torch;
using std::string_literals::operator""s;

TEST_CASE("every code point is UTF-8 once encoded, and no prefix of it is") {
    for (std::uint32_t code = 0; code <= 0x10ffff; code += code < 0x1000 ? 1 : 61) {
        std::string text = "1234567";
        append_utf8(text, code);
        CHECK(is_utf8(text));
        for (std::size_t size = 8; size < text.size(); ++size) CHECK_FALSE(is_utf8(text.substr(0, size)));
    }
    for (const auto& bad : {"\x80"s, "\xc0\x80"s, "\xc1\xbf"s, "\xe0\x9f\xbf"s, "\xf0\x8f\xbf\xbf"s,
                            "\xf4\x90\x80\x80"s, "\xf8\x88\x80\x80\x80"s, "\xc3("s, "abcdefgh\xff"s})
        CHECK_FALSE(is_utf8(bad));
    CHECK(is_utf8("\xed\xa0\x80"));  // a lone surrogate, as with Python's surrogatepass
}

TEST_CASE("bytes survive a round trip through text") {
    std::string bytes;
    for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
    CHECK(is_utf8(latin1_to_utf8(bytes)));
    CHECK(utf8_to_latin1(latin1_to_utf8(bytes)) == bytes);
    CHECK_FALSE(utf8_to_latin1("\xc4\x80"));
    CHECK_FALSE(utf8_to_latin1("\xc3"));
}

TEST_CASE("decimals of up to 64 bits match the machine's two's complement") {
    std::mt19937_64 random{3};
    for (int i = 0; i < 2000; ++i) {
        const auto number = static_cast<std::int64_t>(random() >> (random() % 64)) * (random() % 2 == 0 ? 1 : -1);
        const std::string bytes = two_complement(std::to_string(number));
        REQUIRE(bytes.size() <= 9);
        std::int64_t back = (bytes.back() & 0x80) != 0 ? -1 : 0;
        std::memcpy(&back, bytes.data(), std::min(bytes.size(), sizeof back));
        CHECK(back == number);
    }
    for (const char* bad : {"", "-", "1x", "--1", "+1"}) CHECK_THROWS_AS(two_complement(bad), Error);
    CHECK_THROWS_AS(two_complement(std::string(1001, '1')), Error);
}

TEST_CASE("escapes of protocol 0") {
    CHECK(unescape_quoted("'\\t\\x00\\\\\\377'") == "\t\0\\\xff"s);
    CHECK(unescape_unicode("a\\u4e2d\\n") == "a\xe4\xb8\xad\\n");
    for (const char* bad : {"", "'", "'a", "a", "'\\", "'\\'", "'\\q'", "'\\x1'", "'\\8'"})
        CHECK_THROWS_AS(unescape_quoted(bad), Error);
    for (const char* bad : {"\\u12", "\\U00110000", "\\uzzzz"}) CHECK_THROWS_AS(unescape_unicode(bad), Error);
}
