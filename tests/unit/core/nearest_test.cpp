// SPDX-License-Identifier: Apache-2.0
#include "lib/core/nearest.hpp"

#include <doctest/doctest.h>

using namespace tpx;

TEST_CASE("near names are suggested, far ones are not") {
    const std::vector<std::string> names{"--format", "--force", "--to", "--tensors"};
    CHECK(nearest("--form", names) == std::vector<std::string>{"--format"});
    CHECK(nearest("--fromat", names).front() == "--format");
    CHECK(nearest("--FORCE", names).front() == "--force");
    CHECK(nearest("--ot", names) == std::vector<std::string>{"--to"});
    CHECK(nearest("--nonsense", names).empty());
    CHECK(nearest("--", names).empty());
    CHECK(nearest("", names).empty());
    CHECK(nearest(std::string(100'000, 'f'), names).empty());
}
