// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/held/document.hpp"

#include "tests/support/scratch.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::formats::held;
using test::message_of;

namespace {

Document example_document() {
    Document document{.rank = 1, .ranks = 4, .iteration = 9, .job = "j", .layout = "fsdp=4", .size = 200};
    document.tensors.push_back({"a.w", DType::bf16, {8, 3}, {{2, 4}, {0, 3}}, 64, {"a", "w"}});
    document.tensors.push_back({"step", DType::f32, {}, {}, 0, {std::int64_t{0}, "step"}});
    document.objects.push_back({"lr", 100, 50, {"lr"}});
    document.crcs = 192;
    return document;
}

std::string refusal_of(std::string_view what, std::string_view other) {
    std::string text = write_document(example_document());
    const std::size_t at = text.find(what);
    REQUIRE(at != text.npos);
    text.replace(at, what.size(), other);
    return message_of([&] { parse_document(text); });
}

}  // namespace

TEST_CASE("a document is read back unchanged") {
    const std::string text = write_document(example_document());
    const Document read = parse_document(text);
    CHECK(write_document(read) == text);
    CHECK(read.rank == 1);
    CHECK(read.iteration == 9);
    REQUIRE(read.tensors.size() == 2);
    CHECK(read.tensors[0].box == Box{{2, 4}, {0, 3}});
    CHECK(read.tensors[0].path == KeyPath{"a", "w"});
    CHECK(read.tensors[1].path == KeyPath{std::int64_t{0}, "step"});
    CHECK(payload(read.tensors[0]) == 12);
    CHECK(payload(read.tensors[1]) == 4);
    CHECK(read.objects[0].path == KeyPath{"lr"});
    CHECK(read.crcs == 192);
}

TEST_CASE("a document describes the GPU memory that contains the tensors") {
    Document document = example_document();
    document.gpu = GpuPlace{"0000:3b:00.0", "00ff"};
    const std::string text = write_document(document);
    CHECK(text.starts_with(R"({"memory":"cuda",)"));
    const Document read = parse_document(text);
    REQUIRE(read.gpu);
    CHECK(read.gpu->bus == "0000:3b:00.0");
    CHECK(read.gpu->handle == "00ff");
    CHECK_FALSE(parse_document(write_document(example_document())).gpu);
}

TEST_CASE("pieces outside their segment or tensor are refused") {
    CHECK(refusal_of("\"offset\":64", "\"offset\":190") == "tensor 'a.w': ends at byte 202 of a segment of 200 bytes");
    CHECK(refusal_of("\"offset\":64", "\"offset\":-1") == "tensor 'a.w': 'offset' is not a whole number");
    CHECK(refusal_of("\"offset\":64", "\"offset\":9223372036854775807") ==
          "tensor 'a.w': ends at byte 9223372036854775819 of a segment of 200 bytes");
    CHECK(refusal_of("\"begin\":[2,0]", "\"begin\":[7,0]") ==
          "tensor 'a.w': the box exceeds the tensor's shape on axis 0");
    CHECK(refusal_of("\"shape\":[8,3]", "\"shape\":[4611686018427387904,4]") ==
          "tensor 'a.w': [4611686018427387904, 4] is too large");
    CHECK(refusal_of("\"sizes\":[2,3]", "\"sizes\":[2]") ==
          "tensor 'a.w': 'shape', 'begin' and 'sizes' have different numbers of axes");
    CHECK(refusal_of("\"length\":50", "\"length\":101") == "object 'lr': ends at byte 201 of a segment of 200 bytes");
    CHECK(refusal_of("\"crcs\":192", "\"crcs\":193") == "crcs: ends at byte 201 of a segment of 200 bytes");
}

TEST_CASE("malformed documents are refused") {
    CHECK(message_of([] { parse_document("[1]"); }) == "not a JSON object");
    CHECK(message_of([] { parse_document("{"); }) == "not a JSON object");
    CHECK(refusal_of("\"memory\":\"host\"", "\"memory\":\"device\"") ==
          "unknown memory kind 'device'; this version reads 'host' and 'cuda'");
    CHECK(refusal_of("\"memory\":\"host\"", "\"memory\":\"cuda\"") == "'gpu' is missing");
    CHECK(refusal_of("\"rank\":1", "\"rank\":4") == "'rank' is 4, must be less than 'ranks' (4)");
    CHECK(refusal_of("\"rank\":1", "\"rank\":2000000000") == "'rank' is 2000000000, at most 1073741824 is allowed");
    CHECK(refusal_of("\"objects\"", "\"object\"") == "'objects' is missing");
    CHECK(refusal_of("\"bfloat16\"", "\"float\"") == "tensor 'a.w': unknown dtype 'float'");
    CHECK(refusal_of("[\"a\",\"w\"]", "[\"a\",1.5]") ==
          "tensor 'a.w': 'path' must contain only strings and whole numbers");
    CHECK(refusal_of("\"shape\":[8,3]", "\"shape\":[1,1,1,1,1,1,1,1,1]") ==
          "tensor 'a.w': 'shape' has 9 axes, at most 8 are allowed");
}

TEST_CASE("manifests can only name files in their own folder") {
    const Manifest manifest{{{"3", "4"}, {"5", "6"}}, "7", "job-5-2"};
    const std::string text = write_manifest(manifest);
    CHECK(text.starts_with(manifest_start));
    CHECK(write_manifest(parse_manifest(text)) == text);
    CHECK(message_of([] { parse_manifest(R"({"tpx_held":1,"parts":[{"document":"../x","segment":"4"}]})"); }) ==
          "'../x' is not the name of a file");
    CHECK(message_of([] { parse_manifest(R"({"tpx_held":1,"parts":3})"); }) == "'parts' is not a list");
}
