// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/zarr/array.hpp"

#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace tpx::formats::zarr {
namespace {

/// The array metadata that Megatron-core writes, with `changes` merged in and without member `without`.
std::string array_text(const nlohmann::json& changes, const char* without = "") {
    nlohmann::json json = {{"chunks", {2, 3}},   {"compressor", nullptr}, {"dtype", "<f4"},   {"fill_value", nullptr},
                           {"filters", nullptr}, {"order", "C"},          {"shape", {11, 3}}, {"zarr_format", 2}};
    if (!changes.is_null()) json.update(changes);
    json.erase(without);
    return json.dump();
}

ZarrArray parsed(const nlohmann::json& changes) { return parse_zarr_array(array_text(changes)); }

std::string refusal(const std::string& text) {
    return test::error_of([&] { parse_zarr_array(text); });
}

}  // namespace

TEST_CASE("an array as written by Megatron-core is read") {
    const ZarrArray array = parsed({});
    CHECK(array.dtype == DType::f32);
    CHECK(array.shape == Shape{11, 3});
    CHECK(array.chunk == Shape{2, 3});
    CHECK(array.fill.empty());
    CHECK(chunk_bytes(array) == 24);
    CHECK(chunk_grid(array) == Shape{6, 1});
    CHECK(chunk_box({5, 0}, array) == Box{{10, 11}, {0, 3}});
    CHECK(parsed({{"dtype", "bfloat16"}}).dtype == DType::bf16);
    CHECK(parsed({{"dtype", "|b1"}}).dtype == DType::boolean);
    CHECK(parsed({{"dtype", "<i8"}}).dtype == DType::i64);
    CHECK(parsed({{"dtype", ">i1"}}).dtype == DType::i8);
    CHECK(parsed({{"fill_value", 0.0}}).fill == "0.0");
    CHECK(parsed({{"filters", nlohmann::json::array()}}).shape == Shape{11, 3});
    CHECK(chunk_grid(parsed({{"shape", {0, 3}}, {"chunks", {0, 3}}})) == Shape{0, 1});
}

TEST_CASE("names of chunk files") {
    const ZarrArray array = parsed({});
    CHECK(chunk_index("5.0", array) == Shape{5, 0});
    CHECK(chunk_index("10.0", array) == Shape{10, 0});
    for (const char* name : {"", "5", "5.", ".0", "5.0.0", "05.0", "-1.0", "5/0", "5.0x", "99999999999999999999.0"})
        CHECK_MESSAGE(!chunk_index(name, array), name);
    CHECK(chunk_index("5/0", parsed({{"dimension_separator", "/"}})) == Shape{5, 0});
    const ZarrArray scalar = parsed({{"shape", nlohmann::json::array()}, {"chunks", nlohmann::json::array()}});
    CHECK(chunk_index("0", scalar) == Shape{});
    CHECK(!chunk_index("1", scalar));
    CHECK(chunk_bytes(scalar) == 4);
}

TEST_CASE("arrays that Megatron-core does not write are refused, each for its reason") {
    const std::string list9 = nlohmann::json(std::vector<int>(9, 1)).dump();
    const std::vector<std::pair<std::string, std::string>> cases{
        {"[", "not a JSON object"},
        {"[]", "not a JSON object"},
        {array_text({}, "dtype"), "'dtype' is missing"},
        {array_text({{"zarr_format", 3}}), "zarr_format is 3; only version 2 is read"},
        {array_text({{"compressor", {{"id", "zlib"}, {"level", 1}}}}),
         R"(chunks are compressed ({"id":"zlib","level":1}); only uncompressed chunks are read)"},
        {array_text({}, "compressor"), "'compressor' is missing"},
        {array_text({{"filters", {{{"id", "delta"}}}}}),
         R"(chunks are filtered ([{"id":"delta"}]); only unfiltered chunks are read)"},
        {array_text({{"order", "F"}}), R"(order is "F"; only C order is read)"},
        {array_text({{"dtype", ">f4"}}), "dtype '>f4' is big-endian; only little-endian arrays are read"},
        {array_text({{"dtype", "<V2"}}), R"(dtype "<V2" is unknown)"},
        {array_text({{"dtype", ""}}), R"(dtype "" is unknown)"},
        {array_text({{"dtype", "f4"}}), R"(dtype "f4" is unknown)"},
        {array_text({{"dtype", {{"a", "<f4"}}}}), R"(dtype {"a":"<f4"} is unknown)"},
        {array_text({{"shape", {-1, 3}}}), "shape is [-1,3], not a list of sizes"},
        {array_text({{"shape", {1.5, 3}}}), "shape is [1.5,3], not a list of sizes"},
        {array_text({{"shape", 7}}), "shape is 7, not a list of sizes"},
        {array_text({{"shape", nlohmann::json::parse(list9)}}), "shape has 9 axes (at most 8)"},
        {array_text({{"shape", {4611686018427387904, 4}}}), "shape [4611686018427387904, 4] is too large"},
        {R"({"compressor":)" + std::string(250'000, '[') + std::string(250'000, ']') + "}",
         "nested deeper than 16 levels"},
        {array_text({{"chunks", {2}}}), "chunks and shape differ in length: 1 and 2"},
        {array_text({{"chunks", {0, 3}}}), "chunks of shape [0, 3] have no elements"},
        {array_text({{"chunks", {2305843009213693952, 2}}}), "chunks of shape [2305843009213693952, 2] are too large"},
        {array_text({{"dimension_separator", "_"}}), R"(dimension_separator is "_"; "." and "/" are read)"},
    };
    for (const auto& [text, message] : cases) CHECK(refusal(text) == message);
}

TEST_CASE("arrays are written as by Megatron-core, and read back") {
    const std::string text = read_file("testdata/megatron/zarr/iter_0000010/uneven/.zarray");
    CHECK(write_zarr_array(parse_zarr_array(text)) == text);
    for (const DType dtype : {DType::boolean, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16,
                              DType::bf16, DType::f32, DType::f64, DType::c64, DType::c128})
        CHECK(parse_zarr_array(write_zarr_array({.dtype = dtype, .shape = {}, .chunk = {}, .fill = {}})).dtype ==
              dtype);
    CHECK(refusal(write_zarr_array({.dtype = DType::i8, .shape = {2}, .chunk = {1}, .fill = {}})).empty());
    CHECK_THROWS_WITH_AS(write_zarr_array({.dtype = DType::u32, .shape = {}, .chunk = {}, .fill = {}}),
                         "the zarr backend cannot store u32; use --dtype bf16 or --format torch_dist", Error);
    CHECK(chunk_name({1, 0, 2}) == "1.0.2");
    CHECK(chunk_name({}) == "0");
}

}  // namespace tpx::formats::zarr
