// SPDX-License-Identifier: Apache-2.0
#include "formats/companions.hpp"
#include "formats/encodings/safetensors/header.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::formats;
namespace fs = std::filesystem;

namespace {

using Bytes = std::map<std::string, std::string>;

/// Each tensor whole on one rank.
Content whole_content(const std::vector<Tensor>& tensors) {
    Content content;
    content.tensors = tensors;
    for (std::uint32_t k = 0; k < tensors.size(); ++k)
        content.pieces.push_back({.tensor = k, .box = whole(tensors[k].shape), .strides = {}});
    return content;
}

/// Drafts and writes `content`, opens the result, requires the tensors to be equal.
Checkpoint round_trip(const Content& content, const Bytes& bytes, const fs::path& directory) {
    const Draft draft = draft_safetensors(content);
    REQUIRE(draft.pieces.size() == content.pieces.size());
    for (std::size_t k = 0; k < draft.pieces.size(); ++k) {
        CHECK(draft.pieces[k].tensor == content.pieces[k].tensor);
        CHECK(draft.pieces[k].box == content.pieces[k].box);
        CHECK(draft.pieces[k].strides == row_major(sizes(draft.pieces[k].box)));
    }
    test::write_draft(draft, bytes, directory);
    Checkpoint checkpoint = open_safetensors(directory);
    CHECK(test::assemble(checkpoint.catalogue) == bytes);
    CHECK(find_holes(checkpoint.catalogue).empty());
    return checkpoint;
}

std::string error_of(const Content& content) {
    try {
        draft_safetensors(content);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

/// `tensors` in the order in which the modules of a Llama list their parameters.
std::vector<Tensor> module_order(std::vector<Tensor> tensors) {
    const std::vector<std::string> order{"embed_tokens",    "q_proj",         "k_proj",     "v_proj",
                                         "o_proj",          "gate_proj",      "up_proj",    "down_proj",
                                         "input_layernorm", "post_attention", "model.norm", "lm_head"};
    std::ranges::stable_sort(tensors, {}, [&](const Tensor& tensor) {
        const auto word =
            std::ranges::find_if(order, [&](const std::string& w) { return tensor.name.find(w) != w.npos; });
        const auto layer = tensor.name.find("layers.");
        const int number = layer != tensor.name.npos ? tensor.name[layer + 7] - '0' : word == order.begin() ? -1 : 99;
        return std::pair{number, word - order.begin()};
    });
    return tensors;
}

/// A tensor of at most two axes, split along its last one; each part is on one or two ranks.
void add_random_tensor(Content& content, Bytes& bytes, std::mt19937& random) {
    const auto index = static_cast<std::uint32_t>(content.tensors.size());
    Tensor tensor{fmt::format("t\"{}", index), random() % 2 == 0 ? DType::bf16 : DType::i8, {}};
    for (std::size_t rank = random() % 3; rank > 0; --rank) tensor.shape.push_back(static_cast<Index>(random() % 7));
    std::string& all = bytes[tensor.name];
    for (Index left = volume(tensor.shape) * itemsize(tensor.dtype); left > 0; --left)
        all += static_cast<char>(random());
    const int parts = tensor.shape.empty() ? 1 : 1 + static_cast<int>(random() % 5);
    const int times = random() % 4 == 0 ? 2 : 1;
    for (int part = 0; part < parts * times; ++part) {
        Box box = whole(tensor.shape);
        if (!box.empty()) box[box.size() - 1] = chunk(box[box.size() - 1], parts, part % parts);
        content.pieces.push_back({.tensor = index, .box = box, .strides = {}, .rank = part % content.ranks});
    }
    content.tensors.push_back(tensor);
}

}  // namespace

TEST_CASE("one file has the same bytes as with the reference library") {
    std::vector<fs::path> models{"testdata/llama-small/hf", "testdata/llama-rope/hf",
                                 "testdata/safetensors/good/single", "testdata/llama-hf"};
    if (const fs::path root = test::fixtures(); !root.empty()) {
        for (const char* name : {"hf-llama-single", "hf-bert", "hf-gpt2", "hf-t5", "hf-bloom"})
            models.push_back(root / "safetensors" / name / "ckpt");
    }
    for (const fs::path& model : models) {
        CAPTURE(model.string());
        const Checkpoint source = open_safetensors(model);
        std::vector<Tensor> tensors = source.catalogue.tensors;
        std::ranges::reverse(tensors);
        Content content = whole_content(tensors);
        content.source = &source;
        test::Scratch scratch;
        round_trip(content, test::assemble(source.catalogue), scratch.path());
        CHECK(read_file(scratch.path() / "model.safetensors") == read_file(model / "model.safetensors"));
    }
}

TEST_CASE("several files and their index have the same bytes as with transformers") {
    const fs::path root = test::fixtures();
    if (root.empty()) return;
    const fs::path model = root / "safetensors/hf-llama-sharded/ckpt";
    const Checkpoint source = open_safetensors(model);
    Content content = whole_content(module_order(source.catalogue.tensors));
    content.shard_size = 40000;
    content.source = &source;
    test::Scratch scratch;
    round_trip(content, test::assemble(source.catalogue), scratch.path());
    int count = 0;
    for (const fs::directory_entry& file : fs::directory_iterator(model)) {
        const fs::path name = file.path().filename();
        if (std::ranges::find(source.companions, name) != source.companions.end()) continue;
        CAPTURE(name.string());
        CHECK(read_file(scratch.path() / name) == read_file(file.path()));
        ++count;
    }
    CHECK(count == 6);
}

TEST_CASE("a tensor larger than the file limit has a separate file") {
    Content content =
        whole_content({{"a", DType::u8, {4}}, {"big", DType::u8, {11}}, {"c", DType::u8, {6}}, {"d", DType::u8, {1}}});
    content.shard_size = 10;
    test::Scratch scratch;
    const Bytes bytes{{"a", "aaaa"}, {"big", "bbbbbbbbbbb"}, {"c", "cccccc"}, {"d", "d"}};
    const Checkpoint checkpoint = round_trip(content, bytes, scratch.path());
    CHECK(checkpoint.catalogue.files.size() == 3);
    const nlohmann::json index = nlohmann::json::parse(read_file(scratch.path() / "model.safetensors.index.json"));
    CHECK(index["metadata"] == nlohmann::json{{"total_parameters", 22}, {"total_size", 22}});
    CHECK(index["weight_map"]["big"] == "model-00001-of-00003.safetensors");
    CHECK(index["weight_map"]["a"] == "model-00002-of-00003.safetensors");
    CHECK(index["weight_map"]["c"] == "model-00002-of-00003.safetensors");
    CHECK(index["weight_map"]["d"] == "model-00003-of-00003.safetensors");
}

TEST_CASE("any split across ranks is read back") {
    std::mt19937 random{3};
    for (int round = 0; round < 60; ++round) {
        Content content;
        Bytes bytes;
        content.ranks = 1 + static_cast<int>(random() % 4);
        if (random() % 2 == 0) content.shard_size = 20 + random() % 60;
        while (content.tensors.size() < 6) add_random_tensor(content, bytes, random);
        test::Scratch scratch;
        round_trip(content, bytes, scratch.path());
    }
}

TEST_CASE("a second box of a tensor goes into a further file of its rank, and no file may be lost or moved") {
    Content content;
    content.ranks = 2;
    content.tensors = {{"gate_up", DType::u8, {8, 1}}, {"norm", DType::u8, {2}}};
    for (const int rank : {0, 1}) {
        for (const Index half : {0, 4}) {
            const Interval rows{half + 2 * rank, half + 2 * rank + 2};
            content.pieces.push_back({.tensor = 0, .box = {rows, {0, 1}}, .strides = {}, .rank = rank});
        }
    }
    content.pieces.push_back({.tensor = 1, .box = {{0, 2}}, .strides = {}, .rank = 0});
    test::Scratch scratch;
    const Checkpoint checkpoint = round_trip(content, {{"gate_up", "abcdefgh"}, {"norm", "xy"}}, scratch.path());
    REQUIRE(checkpoint.catalogue.files.size() == 4);
    CHECK(checkpoint.catalogue.files[0].path == "shard-00001-model-00001-of-00002.safetensors");
    CHECK(checkpoint.catalogue.files[3].path == "shard-00002-model-00002-of-00002.safetensors");
    for (const FileEntry& file : checkpoint.catalogue.files) {
        CAPTURE(file.path.string());
        fs::rename(scratch.path() / file.path, scratch.path() / "away");
        CHECK_THROWS_WITH_AS(open_safetensors(scratch.path()), doctest::Contains("is missing"), Error);
        fs::rename(scratch.path() / "away", scratch.path() / file.path);
    }
    const fs::path first = checkpoint.catalogue.path(0), last = checkpoint.catalogue.path(3);
    fs::rename(first, scratch.path() / "away");
    fs::rename(last, first);
    fs::rename(scratch.path() / "away", last);
    CHECK_THROWS_WITH_AS(open_safetensors(scratch.path()), doctest::Contains("was written as shard-00002"), Error);
}

TEST_CASE("a lost file of the last rank is noticed, even if that rank held nothing") {
    Content content;
    content.ranks = 3;
    content.tensors = {{"w", DType::u8, {4}}};
    content.pieces = {{.tensor = 0, .box = {{0, 4}}, .strides = {}, .rank = 0}};
    test::Scratch scratch;
    round_trip(content, {{"w", "abcd"}}, scratch.path());
    fs::remove(scratch.path() / "shard-00003-model-00001-of-00001.safetensors");
    CHECK_THROWS_WITH_AS(open_safetensors(scratch.path()), doctest::Contains("of 3 shards, shard 3 is missing"), Error);
}

TEST_CASE("an empty part is not written, because another part may start at the same offset") {
    Content content;
    content.ranks = 3;
    content.tensors = {{"w", DType::u8, {2}}, {"none", DType::u8, {0}}};
    for (const int rank : {0, 1, 2})
        content.pieces.push_back({.tensor = 0, .box = {chunk({0, 2}, 3, rank)}, .strides = {}, .rank = rank});
    content.pieces.push_back({.tensor = 1, .box = {{0, 0}}, .strides = {}, .rank = 0});
    test::Scratch scratch;
    const Checkpoint checkpoint = round_trip(content, {{"w", "ab"}, {"none", ""}}, scratch.path());
    CHECK(checkpoint.catalogue.pieces.size() == 3);
    CHECK(checkpoint.catalogue.files.size() == 3);
}

TEST_CASE("PyTorch's pairs of f4 values are written as single values, and read as pairs again") {
    test::Scratch scratch;
    const Draft draft = draft_safetensors(whole_content({{"w", DType::f4_x2, {2, 3}}}));
    test::write_draft(draft, {{"w", "abcdef"}}, scratch.path());
    const safetensors::Header header = safetensors::read_header(scratch.path() / "model.safetensors");
    CHECK(header.entries[0].dtype == DType::f4);
    CHECK(header.entries[0].shape == Shape{2, 6});
    const Catalogue catalogue = open_safetensors(scratch.path()).catalogue;
    CHECK(catalogue.tensors[0].dtype == DType::f4_x2);
    CHECK(catalogue.tensors[0].shape == Shape{2, 3});
    CHECK(test::assemble(catalogue).at("w") == "abcdef");
}

TEST_CASE("ranks hold parts of rows of f4 pairs") {
    test::Scratch scratch;
    Content content;
    content.ranks = 2;
    content.tensors = {{"w", DType::f4_x2, {2, 3}}};
    content.pieces = {{.tensor = 0, .box = {{0, 2}, {0, 1}}, .strides = {}, .rank = 0},
                      {.tensor = 0, .box = {{0, 2}, {1, 3}}, .strides = {}, .rank = 1}};
    const Checkpoint checkpoint = round_trip(content, {{"w", "abcdef"}}, scratch.path());
    CHECK(checkpoint.catalogue.tensors[0].dtype == DType::f4_x2);
    CHECK(checkpoint.catalogue.pieces[1].box == Box{{0, 2}, {1, 3}});
}

TEST_CASE("rows with an odd number of f4 values stay single values") {
    test::Scratch scratch;
    const Draft draft = draft_safetensors(whole_content({{"w", DType::f4, {2, 3}}}));
    test::write_draft(draft, {{"w", "abc"}}, scratch.path());
    const Catalogue catalogue = open_safetensors(scratch.path()).catalogue;
    CHECK(catalogue.tensors[0].dtype == DType::f4);
    CHECK(catalogue.tensors[0].shape == Shape{2, 3});
}

TEST_CASE("tensors that safetensors cannot store are refused") {
    CHECK(error_of(whole_content({{"w", DType::c128, {1}}})) == "tensor 'w': safetensors has no dtype c128");
    CHECK(error_of(whole_content({{"w", DType::f4, {3}}})) ==
          "tensor 'w': f4 [3] has 12 bits, not a whole number of bytes");
    Content cut = whole_content({{"w", DType::f4, {4}}});
    cut.pieces[0].box = {{0, 2}};
    CHECK(error_of(cut).find("cannot be split") != std::string::npos);
    Content absent = whole_content({{"w", DType::u8, {4}}});
    absent.pieces.clear();
    CHECK(error_of(absent) == "tensor 'w': no rank holds it");
    CHECK(error_of(whole_content({{"\xff", DType::u8, {4}}})).find("not UTF-8") != std::string::npos);
    const std::vector<Tensor> twice{{"w", DType::u8, {4}}, {"w", DType::u8, {4}}};
    CHECK(error_of(whole_content(twice)) == "tensor 'w': appears twice");
}

TEST_CASE("companions are copied into a folder, except files that exist there") {
    const Checkpoint source = open_safetensors("testdata/llama-small/hf");
    REQUIRE(source.companions == std::vector<fs::path>{"config.json", "generation_config.json"});
    Draft draft{.files = {{"iter_0000001/config.json", 7}}};
    copy_companions(source, "iter_0000001", draft);
    REQUIRE(draft.files.size() == 2);
    CHECK(draft.files[1].path == "iter_0000001/generation_config.json");
    REQUIRE(draft.copies.size() == 1);
    CHECK(draft.copies[0].source == fs::path{"testdata/llama-small/hf/generation_config.json"});
    CHECK(draft.copies[0].length == draft.files[1].size);
}

TEST_CASE("values in the headers of the source are kept") {
    test::Scratch scratch;
    std::vector<safetensors::Entry> entries{{"x", DType::u8, {3}}};
    safetensors::arrange(entries);
    const safetensors::Metadata metadata{{"format", "mlx"}, {"DCP_VERSION", "1.0"}, {"x", "a description of x"}};
    test::write_text(scratch.path() / "model.safetensors", safetensors::write_header(metadata, entries) + "abc");
    const Checkpoint source = open_safetensors(scratch.path());
    Content content = whole_content(source.catalogue.tensors);
    content.source = &source;
    const Checkpoint copy = round_trip(content, {{"x", "abc"}}, scratch.path() / "copy");
    CHECK(header_values(copy) == std::map<std::string, std::string>{{"x", "a description of x"}});
}
