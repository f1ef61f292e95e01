// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/dcp.hpp"
#include "lib/core/file_answers.hpp"
#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

namespace tpx::formats {

TEST_CASE("other processes receive the locations of tensors, not the bytes from which these were read") {
    const std::filesystem::path folder = "testdata/dcp/fsdp2-tp2";
    Checkpoint first;
    std::string packed, metadata;
    {
        FileAnswers answers{folder};
        first = open_dcp(folder);
        metadata = answers.take_packed();
    }
    {
        FileAnswers answers{folder};
        first = test::located(open_dcp(folder));
        packed = answers.take_packed();
    }
    // Locations add a few bytes for each piece and each kind of tensor, while the header of an archive has a kilobyte.
    CHECK(packed.size() < metadata.size() + 200 * first.catalogue.pieces.size());
    const FileAnswers answers{"nowhere", packed};
    const Checkpoint second = test::located(open_dcp("nowhere"));
    REQUIRE(second.catalogue.pieces.size() == first.catalogue.pieces.size());
    for (std::size_t p = 0; p < first.catalogue.pieces.size(); ++p) {
        CHECK(second.catalogue.pieces[p].offset == first.catalogue.pieces[p].offset);
        CHECK(second.catalogue.pieces[p].strides == first.catalogue.pieces[p].strides);
    }
}

}  // namespace tpx::formats
