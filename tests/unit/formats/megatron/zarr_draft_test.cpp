// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/archive.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/megatron/new_objects.hpp"
#include "formats/megatron/torch_dist.hpp"
#include "formats/megatron/zarr.hpp"
#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

const fs::path zarr_sample = "testdata/megatron/zarr";

/// A new checkpoint in a folder of its own.
class Written {
public:
    Written(const Content& content, const std::map<std::string, std::string>& bytes) {
        test::write_archives(draft_zarr(content, notes), bytes, root());
    }
    fs::path root() const { return scratch_.path() / "new"; }
    fs::path inner() const { return root() / "iter_0000010"; }
    std::vector<std::string> notes;

private:
    test::Scratch scratch_;
};

/// The files of `folder` by path, except common.pt and objects, whose pickles have several valid spellings.
std::map<std::string, std::string> arrays_in(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator{folder})
        if (entry.is_regular_file() && entry.path().extension() != ".pt")
            files[entry.path().lexically_relative(folder).string()] = read_file(entry.path());
    return files;
}

/// The chunk files of a tensor of `shape` that is split into `boxes`, and the box that each contains.
std::map<std::string, std::string> files_of(const Shape& shape, const std::vector<Box>& boxes) {
    Content content;
    content.tensors = {{"w", DType::u8, shape}};
    for (const Box& box : boxes) content.pieces.push_back({.tensor = 0, .box = box, .rank = 0});
    std::vector<std::string> notes;
    const Draft draft = draft_zarr(content, notes);
    std::map<std::string, std::string> files;
    for (const Piece& piece : draft.pieces) {
        const std::string name = draft.files[piece.file].path.filename().string();
        CHECK(piece.offset == 0);
        CHECK(files.emplace(name, to_string(piece.box)).second);
    }
    return files;
}

}  // namespace

TEST_CASE("arrays equal those that Megatron-core writes, byte for byte") {
    const Checkpoint source = test::located(open_zarr(zarr_sample));
    Content content;
    content.tensors = source.catalogue.tensors;
    content.pieces = source.catalogue.pieces;
    content.source = &source;
    content.layout = megatron::source_layout(source);
    const Written made{content, test::assemble(source.catalogue)};
    CHECK(arrays_in(made.root()) == arrays_in(zarr_sample));
    CHECK(made.notes.empty());
}

TEST_CASE("objects are stored unchanged, and common state and args are kept") {
    const Checkpoint source = test::located(open_zarr(zarr_sample));
    Content content = test::cut_content(source.catalogue.tensors, 3, 1);
    content.source = &source;
    content.layout = megatron::source_layout(source);
    const Written made{content, test::assemble(source.catalogue)};
    const Checkpoint again = test::located(open_zarr(made.root()));
    CHECK(test::describe(again.catalogue.tensors, test::assemble(again.catalogue)) ==
          test::expected_tensors(zarr_sample.string() + ".json"));
    REQUIRE(again.catalogue.objects.size() == source.catalogue.objects.size());
    for (const Object& object : again.catalogue.objects)
        CHECK(read_file(made.inner() / (object.name + ".pt")) ==
              read_file(zarr_sample / "iter_0000010" / (object.name + ".pt")));
    CHECK(torch::equal(*again.common, *source.common));
    CHECK(again.config == source.config);
    CHECK(again.iteration == 10);
}

TEST_CASE("objects of torch_dist, which are in lists, are stored bare") {
    const Checkpoint source = test::located(open_torch_dist("testdata/llama-small/megatron-tp2pp2"));
    Content content = test::cut_content(source.catalogue.tensors, 2, 0);
    content.source = &source;
    content.layout = megatron::source_layout(source);
    const Written made{content, test::assemble(source.catalogue)};
    REQUIRE_FALSE(source.catalogue.objects.empty());
    for (const Object& object : source.catalogue.objects) {
        CAPTURE(object.name);
        const Fd fd = open_file(source.catalogue.path(object.file), O_RDONLY);
        const torch::Archive stored =
            torch::Archive::open(torch::FileRange{&fd, object.name, object.offset, object.length});
        const torch::Archive bare = torch::Archive::open(made.inner() / (object.name + ".pt"));
        bare.check_crcs();
        CHECK(torch::equal(bare.root(), stored.root().items()[0]));
    }
}

TEST_CASE("chunks are the boxes, or their largest common parts") {
    using Files = std::map<std::string, std::string>;
    CHECK(files_of({4, 6}, {{{0, 4}, {0, 6}}}) == Files{{"0.0", "[0:4, 0:6]"}});
    CHECK(files_of({4, 6}, {{{0, 2}, {0, 6}}, {{2, 4}, {0, 6}}}) ==
          Files{{"0.0", "[0:2, 0:6]"}, {"1.0", "[2:4, 0:6]"}});
    CHECK(files_of({5}, {{{0, 3}}, {{3, 5}}}) == Files{{"0", "[0:3]"}, {"1", "[3:5]"}});
    CHECK(files_of({11}, {{{0, 8}}, {{8, 10}}, {{10, 11}}}).size() == 6);
    CHECK(files_of({5}, {{{0, 2}}, {{2, 5}}, {{0, 2}}}) == Files{{"0", "[0:2]"}, {"1", "[2:4]"}, {"2", "[4:5]"}});
    CHECK(files_of({}, {{}}) == Files{{"0", "[]"}});
    CHECK(files_of({0, 3}, {{{0, 0}, {0, 3}}}).empty());
    CHECK(files_of({4}, {{{0, 4}}, {{2, 2}}, {{4, 4}}}) == Files{{"0", "[0:4]"}});
}

TEST_CASE("data that the backend cannot store is refused or dropped with a note") {
    std::vector<std::string> notes;
    Content content;
    content.tensors = {{"w", DType::f8_e4m3, {2}}};
    content.pieces = {{.tensor = 0, .box = {{0, 2}}, .rank = 0}};
    CHECK(test::error_of([&] { draft_zarr(content, notes); }) ==
          "tensor 'w': the zarr backend cannot store f8_e4m3; use --dtype bf16 or --format torch_dist");
    content.tensors[0].dtype = DType::u8;
    Checkpoint source = open_zarr(zarr_sample);
    source.catalogue.objects.push_back(source.catalogue.objects[0]);
    source.catalogue.objects.back().name = "../outside/shard_0_1";
    content.source = &source;
    for (const FileEntry& file : draft_zarr(content, notes).files)
        CHECK(file.path.string().find("outside") == std::string::npos);
    CHECK(notes ==
          std::vector<std::string>{
              "dropped 1 object whose name is not of the form KEY/shard_OFFSETS_SHAPE ('../outside/shard_0_1')"});
    const auto reject = zarr_driver.reject_name;
    CHECK(reject("decoder.layers.0.weight").empty());
    for (const char* name : {"", ".", "..", ".hidden", "a/b", "common.pt", "metadata.json", "w.sync"})
        CHECK_FALSE(reject(name).empty());
    CHECK_FALSE(reject(std::string(256, 'w')).empty());
    CHECK_FALSE(reject(std::string_view{"a\0b", 3}).empty());
}

}  // namespace tpx::formats
