// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/dcp.hpp"
#include "formats/encodings/torch/value.hpp"
#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace tpx::formats {
namespace {

Piece piece_of(std::uint32_t tensor, Box box, int rank) { return {tensor, 0, 0, box, {}, rank}; }

std::vector<std::string> paths_of(const Draft& draft) {
    std::vector<std::string> paths;
    for (const FileEntry& file : draft.files) paths.push_back(file.path.string());
    return paths;
}

}  // namespace

TEST_CASE("each rank with data has one file, without replicas and empty boxes") {
    Content content;
    content.tensors = {{"w", DType::bf16, {3, 2}}, {"scalar", DType::i64, {}}, {"empty", DType::f32, {0, 4}}};
    content.pieces = {piece_of(0, {{0, 2}, {0, 2}}, 1),
                      piece_of(0, {{2, 3}, {0, 2}}, 3),
                      piece_of(0, {{3, 3}, {0, 2}}, 4),
                      piece_of(0, {{0, 2}, {0, 2}}, 5),
                      piece_of(1, {}, 1),
                      piece_of(2, {{0, 0}, {0, 4}}, 2)};
    const Draft draft = draft_dcp(content);
    CHECK(paths_of(draft) == std::vector<std::string>{"__1_0.distcp", "__3_0.distcp", ".metadata"});
    REQUIRE(draft.pieces.size() == 3);
    CHECK(draft.pieces[0].rank == 1);
    CHECK(draft.pieces[0].strides == Strides{2, 1});
    CHECK(draft.pieces[1].rank == 3);
    CHECK(draft.crc_slots.size() >= 3);

    const std::map<std::string, std::string> bytes{{"w", "abcdefghijkl"}, {"scalar", "12345678"}, {"empty", ""}};
    const test::Scratch scratch;
    test::write_archives(draft, bytes, scratch.path());
    const Checkpoint again = test::located(open_dcp(scratch.path()));
    CHECK(test::assemble(again.catalogue) == bytes);
    CHECK(again.catalogue.tensors[2].shape == Shape{0, 4});
    CHECK(again.planner_data->at("scalar").items()[0].as_string() == "scalar");
}

TEST_CASE("equal contents give equal bytes") {
    const Checkpoint source = open_dcp("testdata/dcp/fsdp2-tp2");
    Content content = test::cut_content(source.catalogue.tensors, 4, 0);
    content.source = &source;
    const Draft first = draft_dcp(content);
    const Draft second = draft_dcp(content);
    REQUIRE(first.fixed.size() == second.fixed.size());
    for (std::size_t i = 0; i < first.fixed.size(); ++i) CHECK(first.fixed[i].bytes == second.fixed[i].bytes);
}

TEST_CASE("objects, which every rank reads, have a separate file if files have holders") {
    const Checkpoint source = open_dcp("testdata/dcp/fsdp2-tp2");
    REQUIRE(!source.catalogue.objects.empty());
    Content content = test::cut_content(source.catalogue.tensors, 4, 0);
    content.source = &source;
    for (const bool split : {false, true}) {
        content.split_by_holders = split;
        const Draft draft = draft_dcp(content);
        const std::uint32_t file = draft.copies.front().file;
        for (const Draft::Copy& copy : draft.copies) CHECK(copy.file == file);
        CHECK(std::ranges::none_of(draft.pieces, [&](const Piece& piece) { return piece.file == file; }) == split);
    }
}

TEST_CASE("the bytes of a draft tile its files") {
    const Checkpoint source = open_dcp("testdata/dcp/fsdp2-tp2");
    Content content = test::cut_content(source.catalogue.tensors, 3, 1);
    content.source = &source;
    const Draft draft = draft_dcp(content);
    std::vector<std::vector<int>> written;
    for (const FileEntry& file : draft.files) written.emplace_back(file.size);
    const auto add = [&](std::uint32_t file, std::uint64_t offset, std::uint64_t length) {
        for (std::uint64_t i = 0; i < length; ++i) ++written.at(file).at(offset + i);
    };
    for (const auto& fixed : draft.fixed) add(fixed.file, fixed.offset, fixed.bytes.size());
    for (const auto& copy : draft.copies) add(copy.file, copy.offset, copy.length);
    for (const Piece& piece : draft.pieces)
        add(piece.file, piece.offset, volume(piece.box) * itemsize(draft.tensors[piece.tensor].dtype));
    for (const auto& file : written)
        for (int times : file) REQUIRE(times == 1);
}

TEST_CASE("pieces keep the order of the catalogue under uneven cuts in two axes") {
    // Boxes that begin together on one axis and end at different positions: the catalogue is not ordered by where they
    // begin.
    Content content;
    content.tensors = {{"w", DType::u8, {4, 4}}};
    content.pieces = {piece_of(0, {{0, 2}, {0, 2}}, 0), piece_of(0, {{0, 1}, {2, 4}}, 1),
                      piece_of(0, {{1, 4}, {2, 4}}, 2), piece_of(0, {{2, 4}, {0, 2}}, 3)};
    const std::map<std::string, std::string> bytes{{"w", "0123456789abcdef"}};
    const test::Scratch scratch;
    test::write_archives(draft_dcp(content), bytes, scratch.path());
    const Checkpoint again = test::located(open_dcp(scratch.path()));
    CHECK(std::is_sorted(again.catalogue.pieces.begin(), again.catalogue.pieces.end(),
                         [](const Piece& a, const Piece& b) { return a.box < b.box; }));
    CHECK(test::assemble(again.catalogue) == bytes);
}

}  // namespace tpx::formats
