// SPDX-License-Identifier: Apache-2.0
#include "lib/core/error.hpp"

#include <doctest/doctest.h>

using namespace tpx;

TEST_CASE("a message is complete even if a name in it contains a NUL") {
    const std::string name{"x\0y", 3};
    Error error = failure("tensor '{}': no rule", name);
    CHECK(std::string{error.what()} == "tensor 'x\\x00y': no rule");
    error.prepend(std::string_view{"a\0b", 3});
    CHECK(std::string{error.what()} == "a\\x00b: tensor 'x\\x00y': no rule");
}
