// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf/gguf.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

#include <cstring>

namespace tpx::formats {

TEST_CASE("tensors of numbers are read with the slowest axis first") {
    const Checkpoint checkpoint = open_gguf("testdata/gguf/numbers.gguf");
    const auto bytes = test::assemble(checkpoint.catalogue);
    REQUIRE(checkpoint.catalogue.tensors.size() == 3);
    CHECK(checkpoint.catalogue.tensors[0].shape == Shape{3, 4});
    float last = 0;
    std::memcpy(&last, bytes.at("token_embd.weight").data() + 44, 4);
    CHECK(last == 11);
    CHECK(checkpoint.catalogue.tensors[1].dtype == DType::f16);
    CHECK(std::get<std::string>(checkpoint.config.at("general.architecture")) == "llama");
    CHECK(std::get<std::int64_t>(checkpoint.config.at("llama.block_count")) == 1);
}

TEST_CASE("the parts of a split file contain the same as the whole file") {
    const auto whole = test::assemble(open_gguf("testdata/gguf/numbers.gguf").catalogue);
    CHECK(test::assemble(open_gguf("testdata/gguf/split-00002-of-00002.gguf").catalogue) == whole);
    const test::Scratch scratch;
    std::filesystem::copy("testdata/gguf/split-00001-of-00002.gguf", scratch.path());
    const std::string missing = (scratch.path() / "split-00002-of-00002.gguf").string() + " is missing";
    CHECK_THROWS_WITH_AS(open_gguf(scratch.path()), missing.c_str(), Error);
    std::filesystem::rename(scratch.path() / "split-00001-of-00002.gguf", scratch.path() / "one.gguf");
    CHECK_THROWS_AS(open_gguf(scratch.path() / "one.gguf"), Error);
}

TEST_CASE("quantized tensors are reported with their type and omitted") {
    const Checkpoint checkpoint = open_gguf("testdata/gguf/mixed.gguf");
    CHECK(checkpoint.catalogue.tensors.size() == 3);
    REQUIRE(checkpoint.opaque.size() == 1);
    CHECK(checkpoint.opaque[0].name == "blk.0.ffn_up.weight");
    CHECK(checkpoint.opaque[0].type == "Q8_0");
    CHECK(checkpoint.opaque[0].shape == Shape{2, 32});
}

TEST_CASE("truncated files are refused") {
    const std::string whole = read_file("testdata/gguf/mixed.gguf");
    const test::Scratch scratch;
    for (std::size_t length = 0; length < whole.size(); ++length) {
        test::write_text(scratch.path() / "cut.gguf", whole.substr(0, length));
        CHECK_THROWS_AS(open_gguf(scratch.path() / "cut.gguf"), Error);
    }
}

TEST_CASE("invalid offsets and counts are refused") {
    const std::string whole = read_file("testdata/gguf/numbers.gguf");
    const test::Scratch scratch;
    const auto attempt = [&](std::size_t at, std::string_view bytes) {
        std::string changed = whole;
        changed.replace(at, bytes.size(), bytes);
        test::write_text(scratch.path() / "changed.gguf", changed);
        CHECK_THROWS_AS(open_gguf(scratch.path() / "changed.gguf"), Error);
    };
    const std::string_view huge{"\xff\xff\xff\xff\xff\xff\xff\x7f", 8};
    attempt(4, std::string_view{"\x01\0\0\0", 4});  // version
    attempt(4, std::string_view{"\0\0\0\x03", 4});  // big-endian
    attempt(8, huge);                               // tensors
    attempt(16, huge);                              // metadata
    const std::size_t name = whole.find("token_embd.weight");
    attempt(name - 8, huge);
    attempt(name + 17, std::string_view{"\x09", 1});  // axes
    attempt(name + 21, huge);                         // a dimension
    attempt(name + 37, std::string_view{"\x63", 1});  // type
    attempt(name + 41, std::string_view{"\x01", 1});  // offset, not aligned
    attempt(name + 41, std::string_view{"\x40", 1});  // offset, in another tensor
}

}  // namespace tpx::formats
