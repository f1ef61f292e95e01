// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/adam_from_settings.hpp"

#include "formats/open_source.hpp"
#include "tests/support/families.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tpx;
using namespace tpx::formats;

TEST_CASE("given_adam reads the step from tensors in archives that nothing has located yet") {
    for (const char* folder : {"testdata/training/dcp", "testdata/training/dcp-hf"}) {
        Source source = open_source(folder, test::families(), {});
        source.checkpoint.iteration.reset();
        std::vector<std::string> notes;
        const std::optional<Adam> adam = adam_from_settings(source, {{"lr", 0.5}}, notes);
        REQUIRE(adam);
        CHECK(adam->step == 3);
        CHECK(adam->matrices.lr == 0.5);
        CHECK(notes.empty());
    }
}
