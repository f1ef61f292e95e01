// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/zarr_chunks.hpp"

#include "formats/encodings/torch/archive.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/megatron/new_objects.hpp"
#include "formats/megatron/torch_dist.hpp"
#include "formats/megatron/zarr.hpp"
#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

const fs::path sample = "testdata/megatron/zarr";

/// A copy of the sample that may be changed.
class ZarrCopy {
public:
    ZarrCopy() { fs::copy(sample, root(), fs::copy_options::recursive); }
    fs::path root() const { return scratch_.path() / "root"; }
    fs::path inner() const { return root() / "iter_0000010"; }
    /// The error of opening it, without the path of inner().
    std::string message() const {
        const std::string text = test::error_of([&] { open_zarr(root()); });
        const std::string prefix = inner().string();
        return text.starts_with(prefix) ? text.substr(prefix.size() + 1) : text;
    }

private:
    test::Scratch scratch_;
};

}  // namespace

TEST_CASE("tensors of the zarr backend are those that Megatron-core loads") {
    const Checkpoint checkpoint = test::located(open_zarr(sample));
    CHECK(checkpoint.format == &zarr_driver);
    CHECK(checkpoint.iteration == 10);
    CHECK(checkpoint.notes.empty());
    CHECK(checkpoint.companions.empty());
    CHECK(checkpoint.config.at("num_layers") == ConfigValue{std::int64_t{2}});
    const auto bytes = test::assemble(checkpoint.catalogue);
    CHECK(test::describe(checkpoint.catalogue.tensors, bytes) == test::expected_tensors(sample.string() + ".json"));
}

TEST_CASE("ShardedObjects become objects, which torch_dist lists") {
    const Checkpoint source = test::located(open_zarr(sample));
    CHECK(source.catalogue.objects.size() == 12);
    const auto bytes = test::assemble(source.catalogue);
    const test::Scratch scratch;
    Content content = test::cut_content(source.catalogue.tensors, 2, 0);
    content.source = &source;
    content.layout = megatron::source_layout(source);
    test::write_archives(draft_torch_dist(content), bytes, scratch.path());
    const Checkpoint again = test::located(open_torch_dist(scratch.path()));
    CHECK(test::describe(again.catalogue.tensors, test::assemble(again.catalogue)) ==
          test::expected_tensors(sample.string() + ".json"));
    REQUIRE(again.catalogue.objects.size() == 12);
    for (const Object& object : again.catalogue.objects) {
        CAPTURE(object.name);
        const Fd fd = open_file(again.catalogue.path(object.file), O_RDONLY);
        const torch::Archive made =
            torch::Archive::open(torch::FileRange{&fd, object.name, object.offset, object.length});
        made.check_crcs();
        const torch::Archive stored = torch::Archive::open(source.catalogue.directory / (object.name + ".pt"));
        REQUIRE(made.root().is(torch::Kind::list));
        REQUIRE(made.root().items().size() == 1);
        CHECK(torch::equal(made.root().items()[0], stored.root()));
    }
}

TEST_CASE("missing bytes of a chunk file are a hole") {
    ZarrCopy copy;
    fs::remove(copy.inner() / "uneven/5.0");
    const Checkpoint checkpoint = open_zarr(copy.root());
    CHECK(checkpoint.notes.empty());
    const std::vector<Hole> holes = find_holes(checkpoint.catalogue);
    REQUIRE(holes.size() == 1);
    CHECK(holes[0].box == Box{{10, 11}, {0, 3}});
    CHECK(test::error_of([&] { check_no_holes(checkpoint.catalogue); }) ==
          "tensor 'uneven': no file contains [10:11, 0:3]");
}

TEST_CASE("fill_value does not replace lost chunks") {
    ZarrCopy copy;
    test::write_text(copy.inner() / "uneven/.zarray",
                     R"({"chunks": [2, 3], "compressor": null, "dtype": "<f4", "fill_value": 0.0, "order": "C",)"
                     R"("shape": [11, 3], "zarr_format": 2})");
    CHECK(open_zarr(copy.root()).notes.empty());
    fs::remove(copy.inner() / "uneven/5.0");
    const Checkpoint checkpoint = open_zarr(copy.root());
    CHECK(find_holes(checkpoint.catalogue).size() == 1);
    CHECK(checkpoint.notes ==
          std::vector<std::string>{"tensor 'uneven': lacks 1 of 6 chunk files; fill_value 0.0 is not used "
                                   "instead, because Megatron-core stores every chunk"});
}

TEST_CASE("an absurd shape costs nothing, and is full of holes") {
    ZarrCopy copy;
    test::write_text(copy.inner() / "uneven/.zarray",
                     R"({"chunks": [2, 3], "compressor": null, "dtype": "<f4", "fill_value": null, "order": "C",)"
                     R"("shape": [1152921504606846976, 3], "zarr_format": 2})");
    CHECK(find_holes(open_zarr(copy.root()).catalogue).size() == 1);
}

TEST_CASE("files outside the checkpoint are noted, except locks and hidden files") {
    ZarrCopy copy;
    test::write_text(copy.inner() / "uneven/.zattrs", "{}");
    test::write_text(copy.inner() / "uneven/1.0.3f2a.partial", "x");
    test::write_text(copy.inner() / "uneven.sync/0.0", "");
    test::write_text(copy.inner() / "uneven.sync/.zarray", "");
    test::write_text(copy.inner() / "modelopt_state/metadata.json", "{}");
    CHECK(open_zarr(copy.root()).notes ==
          std::vector<std::string>{"not read, because these are neither chunks nor ShardedObjects: 'modelopt_state/', "
                                   "'uneven/1.0.3f2a.partial'"});
}

TEST_CASE("damaged zarr checkpoints are refused, each for its reason") {
    const auto refused = [](const auto& damage) {
        ZarrCopy copy;
        damage(copy.inner());
        return copy.message();
    };
    CHECK(refused([](const fs::path& inner) { test::write_text(inner / "uneven/2.0", "short"); }) ==
          "uneven/2.0: tensor 'uneven': 5 bytes, expected 24 for a chunk of shape [2, 3] of f32");
    CHECK(refused([](const fs::path& inner) { fs::copy(inner / "uneven/2.0", inner / "uneven/6.0"); }) ==
          "uneven/6.0: tensor 'uneven': this chunk is outside the array, which has [6, 1] chunks");
    CHECK(refused([](const fs::path& inner) { test::write_text(inner / "uneven/.zarray", "{}"); }) ==
          "uneven/.zarray: tensor 'uneven': 'zarr_format' is missing");
    CHECK(refused([](const fs::path& inner) { fs::remove(inner / "uneven/.zarray"); }) ==
          "uneven/.zarray: tensor 'uneven': No such file or directory, but there are chunk files");
    CHECK(refused([](const fs::path& inner) {
              fs::remove(inner / "uneven/.zarray");
              test::write_text(inner / "uneven/zarr.json", "{}");
          }) == "uneven/zarr.json: tensor 'uneven': an array of zarr version 3; only version 2 is read");
    CHECK(refused([](const fs::path& inner) {
              fs::remove(inner / "uneven/2.0");
              fs::create_symlink("/etc/hostname", inner / "uneven/2.0");
          }) == "uneven/2.0: tensor 'uneven': a link that leads out of the checkpoint");
    CHECK(refused([](const fs::path& inner) { fs::create_directory_symlink("/etc", inner / "etc"); }) ==
          "etc: a link that leads out of the checkpoint");
    CHECK(refused([](const fs::path& inner) {
              for (const auto& entry : fs::directory_iterator{inner})
                  if (entry.is_directory()) fs::remove_all(entry);
          }) == " found no arrays: no folder in it has a .zarray");
    CHECK(refused([](const fs::path& inner) {
              fs::remove(inner / "common.pt");
          }).starts_with("common.pt: No such file or directory"));
}

}  // namespace tpx::formats
