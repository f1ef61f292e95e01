// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/dcp.hpp"
#include "formats/encodings/torch/value.hpp"
#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

#include <set>

namespace tpx::formats {
namespace {

/// Opens `directory`, compares its tensors with `expected`, splits it across other numbers of ranks, and reads the
/// result.
void check_both_ways(const std::filesystem::path& directory, const std::filesystem::path& expected) {
    CAPTURE(directory.string());
    const Checkpoint source = test::located(open_dcp(directory));
    const auto bytes = test::assemble(source.catalogue);
    const auto want = test::expected_tensors(expected);
    CHECK(test::describe(source.catalogue.tensors, bytes) == want);
    for (int ranks : {1, 3}) {
        const test::Scratch scratch;
        Content content = test::cut_content(source.catalogue.tensors, ranks, ranks == 1 ? 0 : 1);
        content.source = &source;
        test::write_archives(draft_dcp(content), bytes, scratch.path());
        const Checkpoint again = test::located(open_dcp(scratch.path()));
        CHECK(test::describe(again.catalogue.tensors, test::assemble(again.catalogue)) == want);
        CHECK(again.planner_data->entries().size() == source.planner_data->entries().size());
        for (const auto& [key, path] : source.planner_data->entries())
            CHECK(torch::equal(again.planner_data->at(key.as_string()), path));
        REQUIRE(again.catalogue.objects.size() == source.catalogue.objects.size());
        for (std::size_t i = 0; i < again.catalogue.objects.size(); ++i) {
            const Object& a = source.catalogue.objects[i];
            const Object& b = again.catalogue.objects[i];
            CHECK(a.name == b.name);
            CHECK(read_file(source.catalogue.path(a.file)).substr(a.offset, a.length) ==
                  read_file(again.catalogue.path(b.file)).substr(b.offset, b.length));
        }
    }
}

}  // namespace

TEST_CASE("a checkpoint of PyTorch is read, written under other layouts, and read again") {
    check_both_ways("testdata/dcp/fsdp2-tp2", "testdata/dcp/fsdp2-tp2.json");
}

TEST_CASE("pieces have a box, a file, an archive and the rank that wrote them") {
    const Checkpoint checkpoint = open_dcp("testdata/dcp/fsdp2-tp2");
    const Catalogue& catalogue = checkpoint.catalogue;
    std::set<std::int32_t> ranks;
    for (const Piece& piece : catalogue.pieces) ranks.insert(piece.rank);
    CHECK(ranks == std::set<std::int32_t>{0, 1, 2, 3});
    CHECK(catalogue.files.size() == 4);
    CHECK(checkpoint.archives.size() == catalogue.pieces.size());
    REQUIRE(catalogue.objects.size() == 2);
    CHECK(catalogue.objects[0].name == "train_state.lr");
    // 14 rows: tp splits them into 7 and 7, fsdp each of these into 4 and 3.
    CHECK(catalogue.tensors[0].name == "tok_embeddings.weight");
    const Box rows[] = {{{0, 4}, {0, 8}}, {{4, 7}, {0, 8}}, {{7, 11}, {0, 8}}, {{11, 14}, {0, 8}}};
    for (int i = 0; i < 4; ++i) CHECK(catalogue.pieces[i].box == rows[i]);
    CHECK(checkpoint.planner_data->find("train_state.lr")->items()[1].as_string() == "lr");
}

TEST_CASE("every DCP fixture is read, written under other layouts, and read again") {
    const auto folder = test::fixtures();
    if (folder.empty()) return;
    for (const auto& fixture : std::filesystem::directory_iterator{folder / "dcp"}) {
        if (!std::filesystem::exists(fixture.path() / "ckpt/.metadata")) continue;
        check_both_ways(fixture.path() / "ckpt", fixture.path() / "fixture.json");
    }
}

}  // namespace tpx::formats
