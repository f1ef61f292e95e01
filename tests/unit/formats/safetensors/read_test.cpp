// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/safetensors/header.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/safetensors/select_files.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::formats;
namespace fs = std::filesystem;

namespace {

const fs::path good = "testdata/safetensors/good";

/// A copy of a directory that tests may damage.
class Copy : public test::Scratch {
public:
    explicit Copy(const fs::path& from) { fs::copy(from, path(), fs::copy_options::recursive); }
};

std::string refusal(const fs::path& path) {
    try {
        open_safetensors(path);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

/// A file of u8 tensors of one axis; if `sharded`, with their offsets in the whole tensors.
void write_file(const fs::path& path, const std::map<std::string, Interval>& tensors, bool sharded) {
    std::vector<safetensors::Entry> entries;
    std::string offsets;
    for (const auto& [name, range] : tensors) {
        entries.push_back({name, DType::u8, {range.size()}});
        offsets += fmt::format("{}\"{}\":{{\"saved_offsets\":[{}]}}", offsets.empty() ? "" : ",", name, range.begin);
    }
    const std::uint64_t size = safetensors::arrange(entries);
    safetensors::Metadata metadata;
    if (sharded) metadata = {{"DCP_SHARDING_INFO", "{" + offsets + "}"}};
    test::write_text(path, safetensors::write_header(metadata, entries) + std::string(size, 'x'));
}

void replace_in(const fs::path& path, const std::string& from, const std::string& to) {
    std::string text = read_file(path);
    const auto at = text.find(from);
    REQUIRE(at != text.npos);
    test::write_text(path, text.replace(at, from.size(), to));
}

}  // namespace

TEST_CASE("one file, an index and files of ranks contain the tensors that were written") {
    for (const char* form : {"single", "indexed", "ranks"}) {
        const Checkpoint checkpoint = open_safetensors(good / form);
        test::check_against(checkpoint.catalogue, good / (form + std::string(".json")));
        CHECK(find_holes(checkpoint.catalogue).empty());
        CHECK(checkpoint.notes.empty());
    }
}

TEST_CASE("the path of a file or an index can be given") {
    CHECK(open_safetensors(good / "single/model.safetensors").catalogue.tensors.size() == 10);
    CHECK(open_safetensors(good / "indexed/model.safetensors.index.json").catalogue.tensors.size() == 10);
}

TEST_CASE("configuration and companions are found") {
    Copy copy(good / "single");
    test::write_text(copy.path() / ".hidden", "x");
    test::write_text(copy.path() / "tpx.digests.json", "{}");
    test::write_text(copy.path() / "pytorch_model.bin", "x");
    fs::create_symlink("/etc/passwd", copy.path() / "vocab.txt");
    fs::create_symlink("tokenizer.json", copy.path() / "other.json");
    const Checkpoint checkpoint = open_safetensors(copy.path());
    CHECK(checkpoint.config.size() == 8);
    CHECK(checkpoint.config.at("architectures") == ConfigValue{std::string{"Tiny"}});
    CHECK(checkpoint.config.at("architectures.count") == ConfigValue{std::int64_t{1}});
    CHECK(checkpoint.config.at("hidden_size") == ConfigValue{std::int64_t{6}});
    CHECK(checkpoint.config.at("eps") == ConfigValue{1e-6});
    CHECK(checkpoint.config.at("tied") == ConfigValue{false});
    CHECK(checkpoint.config.at("pad") == ConfigValue{nullptr});
    CHECK(checkpoint.config.at("rope_parameters.theta") == ConfigValue{1e4});
    CHECK(checkpoint.config.at("rope_parameters.theta") == ConfigValue{1e4});
    CHECK(checkpoint.config.at("model_type") == ConfigValue{std::string("tiny")});
    CHECK(checkpoint.config_json.starts_with("{\n"));
    CHECK(checkpoint.companions == std::vector<fs::path>{"config.json", "other.json", "tokenizer.json"});
    CHECK(checkpoint.notes ==
          std::vector<std::string>{"not carried over: 'vocab.txt' (a link that leads out of the checkpoint)",
                                   "not carried over: pytorch_model.bin"});
}

TEST_CASE("companions that cannot be copied are named, and an error does not count as absence (T19)") {
    Copy copy(good / "single");
    test::write_text(copy.path() / "merges.txt", "");
    fs::resize_file(copy.path() / "merges.txt", (std::uintmax_t{256} << 20) + 1);
    for (int k = 0; k < 6; ++k) fs::create_symlink("nowhere", copy.path() / fmt::format("z{}", k));
    const Checkpoint checkpoint = open_safetensors(copy.path());
    CHECK(checkpoint.companions == std::vector<fs::path>{"config.json", "tokenizer.json"});
    REQUIRE(checkpoint.notes.size() == 1);
    CHECK(checkpoint.notes[0] ==
          "not carried over: 'merges.txt' (268435457 bytes, more than 268435456), "
          "'z0' (a link that leads nowhere), 'z1' (a link that leads nowhere), 'z2' (a link that leads nowhere), "
          "'z3' (a link that leads nowhere) and 2 more");
    fs::create_symlink("loop", copy.path() / "loop");
    CHECK_THROWS_WITH_AS(open_safetensors(copy.path()),
                         ((copy.path() / "loop").string() + ": Too many levels of symbolic links").c_str(), Error);
}

TEST_CASE("a snapshot in a Hugging Face cache, all links, is read with its companions") {
    test::Scratch hub;
    const fs::path snapshot = hub.path() / "snapshots/abc", blobs = hub.path() / "blobs";
    fs::create_directories(snapshot);
    fs::create_directories(blobs);
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
        fs::copy(good / "single" / name, blobs / (name + std::string(".blob")));
        fs::create_symlink("../../blobs/" + std::string(name) + ".blob", snapshot / name);
    }
    fs::create_symlink("../../../etc/passwd", snapshot / "vocab.txt");
    const Checkpoint checkpoint = open_safetensors(snapshot);
    test::check_against(checkpoint.catalogue, good / "single.json");
    CHECK(checkpoint.companions == std::vector<fs::path>{"config.json", "tokenizer.json"});
}

TEST_CASE("ranks, boxes and replicas are read from files of ranks") {
    const Catalogue catalogue = open_safetensors(good / "ranks").catalogue;
    CHECK(catalogue.pieces.size() == 7);
    for (const Piece& piece : catalogue.pieces) {
        CHECK(piece.rank == static_cast<int>(piece.file));
        const std::string& name = catalogue.tensors[piece.tensor].name;
        if (name == "by_columns") CHECK(piece.box == Box{{0, 6}, {piece.rank * 2, piece.rank * 2 + 2}});
        if (name == "replica") CHECK(piece.box == Box{{0, 6}, {0, 4}});
    }
}

TEST_CASE("an index and its files must agree") {
    const std::string first = "model-00001-of-00002.safetensors", index = "model.safetensors.index.json";
    Copy copy(good / "indexed");
    const auto refused_with = [&](const std::string& cause) {
        const std::string message = refusal(copy.path());
        CHECK_MESSAGE(message.find(cause) != message.npos, message);
        CHECK(message.starts_with(copy.path().string() + "/"));
    };
    SUBCASE("a file is missing") {
        fs::remove(copy.path() / first);
        refused_with(index + ": " + first + " is missing");
    }
    SUBCASE("a tensor is not in its file") {
        replace_in(copy.path() / index, "\"steps\": \"model-00001", "\"steps\": \"model-00002");
        refused_with("tensor 'steps': is in " + first + ", but the index says model-00002-of-00002.safetensors");
    }
    SUBCASE("a tensor is in no file") {
        replace_in(copy.path() / index, "\"steps\"", "\"absent\": \"" + first + "\", \"steps\"");
        refused_with("tensor 'absent': is not in " + first);
    }
    SUBCASE("a tensor is in a file only") {
        replace_in(copy.path() / index, "\"steps\": \"" + first + "\",", "");
        refused_with("tensor 'steps': is in " + first + " but not in the index");
    }
    SUBCASE("a tensor is in two files") {
        fs::copy(copy.path() / first, copy.path() / "more.safetensors");
        replace_in(copy.path() / index, "\"steps\"", "\"more\": \"more.safetensors\", \"steps\"");
        refused_with("neither file records which part it contains");
    }
    SUBCASE("a name appears twice") {
        replace_in(copy.path() / index, "\"steps\"", "\"steps\": \"" + first + "\", \"steps\"");
        refused_with("tensor 'steps': appears twice");
    }
    SUBCASE("a path leaves the directory") {
        for (const char* outside : {"/etc/passwd", "../x.safetensors", "a/../../x.safetensors", "", ".", "a/.."}) {
            CAPTURE(outside);
            test::write_text(copy.path() / index, fmt::format("{{\"weight_map\": {{\"a\": \"{}\"}}}}", outside));
            refused_with("tensor 'a': '" + std::string(outside) + "' is not a file inside the checkpoint's directory");
        }
    }
    SUBCASE("it is not an index") {
        for (const char* text : {"", "{}", "[]", "5", R"({"weight_map": []})", R"({"weight_map": {"a": {}}})",
                                 R"({"weight_map": {"a": 1}})", R"({"weight_map": {}, "weight_map": {}})",
                                 R"({"weight_map": null})", R"({"weight_map": {"a": "b")"}) {
            CAPTURE(text);
            test::write_text(copy.path() / index, text);
            refused_with(index + ": ");
        }
    }
}

TEST_CASE("an index needs only its weight_map") {
    Copy copy(good / "indexed");
    const fs::path index = copy.path() / "model.safetensors.index.json";
    const nlohmann::json map = nlohmann::json::parse(read_file(index))["weight_map"];
    for (const char* metadata :
         {"null", "{}", "[1]", R"({"total_size": 1.5})", R"({"total_size": 7})", R"({"a": {"b": 1}})"}) {
        test::write_text(index,
                         fmt::format("{{\"x\": [{{}}], \"metadata\": {}, \"weight_map\": {}}}", metadata, map.dump()));
        CHECK(refusal(copy.path()) == "accepted");
    }
}

TEST_CASE("the choice of files must be unambiguous") {
    test::Scratch scratch;
    const fs::path& at = scratch.path();
    SUBCASE("files without an index are joined if their tensor names differ") {
        write_file(at / "a.safetensors", {{"x", {0, 3}}}, false);
        write_file(at / "b.safetensors", {{"y", {0, 3}}}, false);
        CHECK(open_safetensors(at).catalogue.tensors.size() == 2);
        write_file(at / "b.safetensors", {{"x", {0, 3}}}, false);
        CHECK(refusal(at) ==
              (at / "b.safetensors").string() +
                  ": tensor 'x': is also in a.safetensors, and neither file records which part it contains");
    }
    SUBCASE("a missing numbered file is noticed") {
        write_file(at / "model-00001-of-00003.safetensors", {{"x", {0, 3}}}, false);
        write_file(at / "model-00003-of-00003.safetensors", {{"y", {0, 3}}}, false);
        CHECK(refusal(at) == at.string() + ": model-00002-of-00003.safetensors is missing");
    }
    SUBCASE("an index next to a whole model") {
        Copy copy(good / "indexed");
        write_file(copy.path() / "model.safetensors", {{"x", {0, 3}}}, false);
        CHECK(refusal(copy.path()).find("contains both ") != std::string::npos);
        CHECK(open_safetensors(copy.path() / "model.safetensors").catalogue.tensors.size() == 1);
    }
    SUBCASE("the folder `sharded` is read if there is nothing next to it") {
        write_file(at / "sharded/shard-00001-model-00001-of-00001.safetensors", {{"x", {0, 3}}}, true);
        write_file(at / "sharded/shard-00002-model-00001-of-00001.safetensors", {{"x", {3, 5}}}, true);
        CHECK(open_safetensors(at).catalogue.pieces.size() == 2);
        write_file(at / "model.safetensors", {{"x", {0, 5}}}, false);
        const Checkpoint checkpoint = open_safetensors(at);
        CHECK(checkpoint.catalogue.pieces.size() == 1);
        REQUIRE(checkpoint.notes.size() == 1);
        CHECK(checkpoint.notes[0].starts_with("ignored the files in sharded/ (2):"));

        const std::vector<safetensors::Entry> scalar{{"step", DType::u8, {}, 0, 1}};
        test::write_text(at / "model.safetensors", safetensors::write_header({}, scalar) + "x");
        const Checkpoint joined = open_safetensors(at);
        REQUIRE(joined.notes.size() == 2);
        CHECK(joined.notes[1].starts_with("tensor 'step': PyTorch leaves scalars zero"));
    }
}

TEST_CASE("names of numbered files are parsed") {
    const auto taken = [](const char* text) -> std::string {
        const auto name = safetensors::parse_part_name(text);
        if (!name) return "none";
        return fmt::format("{} {} {} {}", name->shard.value_or(-1), name->stem, name->part, name->parts);
    };
    CHECK(taken("model-00002-of-00005.safetensors") == "-1 model 2 5");
    CHECK(taken("shard-00003-model-00002-of-00005.safetensors") == "3 model 2 5");
    CHECK(taken("shard-00003-a-b-000002-of-123456.safetensors") == "3 a-b 2 123456");
    CHECK(taken("shard-00003-00002-of-00005.safetensors") == "-1 shard-00003 2 5");
    CHECK(taken("shard-3-model-00002-of-00005.safetensors") == "-1 shard-3-model 2 5");
    for (const char* other : {"model.safetensors", "model-00002-of-00005", "model-2-of-5.safetensors", ".safetensors",
                              "-00002-of-00005.safetensors", "00002-of-00005.safetensors",
                              "m-0000000002-of-00005.safetensors", "model-00002-00005.safetensors"})
        CHECK(taken(other) == "none");
}

TEST_CASE("files of ranks must fit together") {
    test::Scratch scratch;
    const fs::path& at = scratch.path();
    const auto shard = [&](int rank) { return at / fmt::format("shard-{:05}-model-00001-of-00001.safetensors", rank); };
    write_file(shard(1), {{"x", {0, 3}}}, true);
    write_file(shard(3), {{"x", {4, 6}}}, true);
    SUBCASE("a hole is found, and the missing shard is reported") {
        const Checkpoint checkpoint = open_safetensors(at);
        CHECK(checkpoint.notes == std::vector<std::string>{"no file of shard 2: it was empty or is lost"});
        const std::vector<Hole> holes = find_holes(checkpoint.catalogue);
        REQUIRE(holes.size() == 1);
        CHECK(holes[0].box == Box{{3, 4}});
    }
    SUBCASE("an overlap is refused") {
        write_file(shard(2), {{"x", {3, 5}}}, true);
        CHECK(refusal(at).find("tensor 'x': boxes") != std::string::npos);
    }
    SUBCASE("a part without offsets is refused") {
        write_file(shard(2), {{"x", {0, 3}}}, false);
        CHECK(refusal(at).find("tensor 'x': is also in") != std::string::npos);
    }
    SUBCASE("parts of different types are refused") {
        std::vector<safetensors::Entry> entries{{"x", DType::i8, {1}}};
        safetensors::arrange(entries);
        const safetensors::Metadata metadata{{"DCP_SHARDING_INFO", R"({"x":{"saved_offsets":[3]}})"}};
        test::write_text(shard(2), safetensors::write_header(metadata, entries) + "x");
        CHECK(refusal(at).find("is i8 [1] here and u8") != std::string::npos);
    }
    SUBCASE("a sub-byte dtype cannot be split, except between pairs of f4") {
        const auto write_parts = [&](int columns) {
            for (const int part : {0, 1}) {
                std::vector<safetensors::Entry> entries{{"x", DType::f4, {2, columns}}};
                const auto bytes = static_cast<std::size_t>(safetensors::arrange(entries));
                const std::string info = fmt::format("{{\"x\":{{\"saved_offsets\":[0,{}]}}}}", part * columns);
                test::write_text(
                    shard(2 * part + 1),
                    safetensors::write_header({{"DCP_SHARDING_INFO", info}}, entries) + std::string(bytes, 'x'));
            }
        };
        write_parts(4);
        CHECK(refusal(at) == "accepted");
        write_parts(3);
        CHECK(refusal(at).find("cannot be split") != std::string::npos);
    }
}

TEST_CASE("ranks that overwrote each other's files are found by the index") {
    // The output of PyTorch if several ranks save without save_distributed: all write model-00001-of-00001, and one
    // wins.
    test::Scratch scratch;
    const fs::path file = scratch.path() / "model-00001-of-00001.safetensors";
    const std::string entry = ": \"model-00001-of-00001.safetensors\"";
    const auto index = [&](const std::string& map, int total) {
        test::write_text(scratch.path() / "model.safetensors.index.json",
                         fmt::format("{{\"metadata\": {{\"total_size\": {}}}, \"weight_map\": {{{}}}}}", total, map));
    };
    SUBCASE("the last rank won: its boxes start late") {
        write_file(file, {{"x", {3, 5}}}, true);
        index("\"x\"" + entry, 5);
        CHECK(refusal(scratch.path()).find("counts 5 bytes of tensors, but the files contain 2") != std::string::npos);
    }
    SUBCASE("the first rank won: its box looks whole") {
        write_file(file, {{"x", {0, 3}}}, true);
        index("\"x\"" + entry, 5);
        CHECK(refusal(scratch.path()).find("counts 5 bytes of tensors, but the files contain 3") != std::string::npos);
        index("\"x\"" + entry, 3);
        CHECK(refusal(scratch.path()) == "accepted");
    }
    SUBCASE("a tensor that another rank wrote is missing") {
        write_file(file, {{"x", {0, 3}}}, true);
        index("\"x\"" + entry + ", \"y\"" + entry, 5);
        CHECK(refusal(scratch.path()).find("tensor 'y': is not in model-00001-of-00001") != std::string::npos);
    }
}

TEST_CASE("checkpoints of transformers and of PyTorch contain the original tensors") {
    const fs::path root = test::fixtures();
    if (root.empty()) return;
    int count = 0;
    for (const char* group : {"safetensors", "dcp"}) {
        for (const fs::directory_entry& fixture : fs::directory_iterator(root / group)) {
            const std::string name = fixture.path().filename().string();
            if (!name.starts_with("hf-") || name == "hf-a-dcp-fsdp2") continue;
            CAPTURE(name);
            const Checkpoint checkpoint = open_safetensors(fixture.path() / "ckpt");
            test::check_against(checkpoint.catalogue, fixture.path() / "fixture.json");
            CHECK(find_holes(checkpoint.catalogue).empty());
            CHECK(checkpoint.config.contains("model_type") == (std::string(group) == "safetensors"));
            ++count;
        }
    }
    CHECK(count >= 15);
}
