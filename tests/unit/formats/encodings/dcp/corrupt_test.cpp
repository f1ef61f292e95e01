// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/dcp.hpp"
#include "formats/encodings/dcp/write_metadata.hpp"
#include "formats/encodings/torch/pickle_writer.hpp"
#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

#include <functional>

namespace tpx::formats {
namespace {

const std::filesystem::path sample = "testdata/dcp/fsdp2-tp2";

/// The content of a `.metadata` for two files of 100 bytes with the halves of tensor 'w', f32, 4 x 4, and object 'o'.
struct Told {
    std::vector<FileEntry> files{{"__0_0.distcp", 0}, {"__1_0.distcp", 0}};
    std::vector<Tensor> tensors{{"w", DType::f32, {4, 4}}};
    std::vector<Piece> pieces{{0, 0, 0, {{0, 2}, {0, 4}}, {}, 0}, {0, 1, 0, {{2, 4}, {0, 4}}, {}, 1}};
    std::vector<std::uint64_t> lengths{50, 50};
    std::vector<Object> objects{{"o", 0, 50, 50}};
};

std::string complaint(const std::function<void(Told&)>& change) {
    Told told;
    change(told);
    const test::Scratch scratch;
    for (const char* name : {"__0_0.distcp", "__1_0.distcp"})
        test::write_text(scratch.path() / name, std::string(100, '\0'));
    test::write_text(scratch.path() / ".metadata", write_metadata({told.files, told.tensors, told.pieces, told.lengths,
                                                                   told.objects, true, nullptr}));
    std::string message = test::error_of([&] { check_no_holes(open_dcp(scratch.path()).catalogue); });
    const std::string folder = scratch.path().string() + "/";
    if (message.starts_with(folder)) message.erase(0, folder.size());
    return message;
}

}  // namespace

TEST_CASE(".metadata is checked for consistency with itself and the files") {
    CHECK(complaint([](Told&) {}) == "");
    CHECK(complaint([](Told& told) {
              told.pieces[1].box[0] = {1, 3};
          }) == ".metadata: tensor 'w': boxes [0:2, 0:4] and [1:3, 0:4] overlap");
    CHECK(complaint([](Told& told) { told.pieces[1].box[0] = {3, 4}; }) == "tensor 'w': no file contains [2:3, 0:4]");
    CHECK(complaint([](Told& told) {
              told.pieces[1].box[0] = {3, 5};
          }) == ".metadata: tensor 'w': chunk at [3, 0] of size [2, 4] exceeds the shape [4, 4]");
    CHECK(complaint([](Told& told) { told.pieces[1].box = told.pieces[0].box; }) ==
          ".metadata: tensor 'w': box [0:2, 0:4] is stored twice");
    CHECK(complaint([](Told& told) { told.lengths[1] = 101; }) ==
          "__1_0.distcp: tensor 'w': box [2:4, 0:4]: 101 bytes at offset 0 exceed the file size (100 bytes)");
    CHECK(complaint([](Told& told) { told.objects[0].offset = 49; }) ==
          "__0_0.distcp: object 'o': shares 1 bytes at offset 49 with tensor 'w': box [0:2, 0:4]");
    CHECK(complaint([](Told& told) { told.objects[0].name = told.tensors[0].name; }) ==
          ".metadata: tensor 'w': is named twice");
    CHECK(complaint([](Told& told) { told.files[1].path = "__7_0.distcp"; }) ==
          "__7_0.distcp: No such file or directory; it should contain tensor 'w': box [2:4, 0:4]");
    CHECK(complaint([](Told& told) {
              told.tensors[0].shape = {Index{1} << 40, Index{1} << 40};
          }).starts_with(".metadata: tensor 'w': shape [1099511627776, 1099511627776] is too large"));
}

namespace {

/// The error for a `.metadata` with one tensor whose only chunk is in file `path`; `extra` adds to its storage info.
std::string message_for(std::string_view path, const std::function<void(torch::PickleWriter&)>& extra = {}) {
    const test::Scratch scratch;
    test::write_text(scratch.path() / "f", std::string(100, '\0'));
    const auto begin = [](torch::PickleWriter& out, std::string_view name) {
        out.global("any.module", name);
        out.empty_tuple();
        out.new_object();
        out.empty_dict();
        out.mark();
    };
    torch::PickleWriter out;
    const auto end = [&] {
        out.set_items();
        out.build();
    };
    begin(out, "Metadata");
    out.string("state_dict_metadata");
    out.empty_dict();
    out.mark();
    out.string("o");
    begin(out, "BytesStorageMetadata");
    end();
    out.set_items();
    out.string("storage_data");
    out.empty_dict();
    out.mark();
    begin(out, "MetadataIndex");
    out.string("fqn");
    out.string("o");
    end();
    begin(out, "_StorageInfo");
    out.string("relative_path");
    out.string(path);
    out.string("offset");
    out.integer(0);
    out.string("length");
    out.integer(100);
    if (extra) extra(out);
    end();
    out.set_items();
    end();
    test::write_text(scratch.path() / ".metadata", out.finish());
    std::string message = test::error_of([&] { open_dcp(scratch.path()); });
    const std::string prefix = (scratch.path() / ".metadata: ").string();
    return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

}  // namespace

TEST_CASE("classes are recognized by name, and attributes that old releases lack are optional") {
    CHECK(message_for("f") == "");
}

TEST_CASE("paths stay inside the directory") {
    for (const char* path : {"../f", "/etc/passwd", "a/../../f", "", ".", "a/"})
        CHECK(message_for(path) == fmt::format("tensor 'o': path '{}' does not name a file of this directory", path));
}

TEST_CASE("data with transforms is refused") {
    const auto compressed = [](torch::PickleWriter& out) {
        out.string("transform_descriptors");
        out.empty_list();
        out.mark();
        out.string("zstd");
        out.appends();
    };
    CHECK(message_for("f", compressed) == "tensor 'o': data is transformed (str 'zstd'), which tpx cannot read");
}

TEST_CASE("damage to real files is reported") {
    const test::Scratch scratch;
    const auto fresh = [&] {
        std::filesystem::remove_all(scratch.path());
        std::filesystem::copy(sample, scratch.path());
        for (const auto& file : std::filesystem::directory_iterator{scratch.path()})
            std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    };
    const auto message = [&] {
        return test::error_of([&] { test::located(open_dcp(scratch.path())); })
            .substr(scratch.path().string().size() + 1);
    };
    fresh();
    std::filesystem::resize_file(scratch.path() / "__2_0.distcp", 20000);
    CHECK(message().starts_with("__2_0.distcp: tensor '"));
    CHECK(message().find("exceed the file size (20000 bytes)") != std::string::npos);
    fresh();
    std::filesystem::remove(scratch.path() / "__3_0.distcp");
    CHECK(message().starts_with("__3_0.distcp: No such file or directory; it should contain "));
    fresh();
    std::filesystem::remove(scratch.path() / ".metadata");
    CHECK(message() == ".metadata: No such file or directory");
    fresh();
    std::filesystem::rename(scratch.path() / ".metadata", scratch.path() / "__0.metadata");
    CHECK(message().find("each rank wrote its own metadata") != std::string::npos);
    fresh();
    std::filesystem::resize_file(scratch.path() / ".metadata", 5000);
    CHECK(message().starts_with(".metadata: byte "));
    fresh();
    std::filesystem::rename(scratch.path() / "__1_0.distcp", scratch.path() / "x");
    std::filesystem::rename(scratch.path() / "__3_0.distcp", scratch.path() / "__1_0.distcp");
    std::filesystem::rename(scratch.path() / "x", scratch.path() / "__3_0.distcp");
    CHECK(message().find(".distcp: tensor '") != std::string::npos);
}

}  // namespace tpx::formats
