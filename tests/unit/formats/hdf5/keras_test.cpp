// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/hdf5.hpp"
#include "formats/hdf5/keras_model.hpp"
#include "formats/hdf5/tree.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

/// Digests by name.
std::map<std::string, std::string> contents(const Checkpoint& checkpoint) {
    check_whole(checkpoint.catalogue);
    std::map<std::string, std::string> digests;
    for (const auto& [name, bytes] : test::assemble(checkpoint.catalogue)) digests[name] = test::sha256(bytes);
    return digests;
}

/// Writes what `source` holds in a format of one file, and opens that.
Checkpoint rewritten(const Checkpoint& source, Format format, const test::Scratch& scratch) {
    Content content{.tensors = source.catalogue.tensors, .source = &source, .ranks = 1};
    for (std::uint32_t t = 0; t < content.tensors.size(); ++t)
        content.pieces.push_back({.tensor = t, .box = whole(content.tensors[t].shape), .rank = 0});
    test::write_draft(draft_keras(format, content), test::assemble(source.catalogue), scratch.path());
    return open_hdf5(scratch.path());
}

/// The path of each tensor's dataset.
std::map<std::string, std::string> checkpoint_paths(const Checkpoint& checkpoint) {
    std::map<std::string, std::string> paths;
    for (const auto& [name, origin] : checkpoint.tree->datasets) paths[name] = origin.path;
    return paths;
}

constexpr std::array forms{"tiny.weights.h5",           "tiny.keras", "deflated.keras",
                           "sharded/tiny.weights.json", "sharded",    "tiny.h5"};

}  // namespace

TEST_CASE("all forms of Keras hold one state under the same names") {
    const auto first = contents(open_hdf5("testdata/keras/tiny.weights.h5"));
    CHECK(first.size() == 25);
    for (const char* name :
         {"first.vars.0", "first.vars.1", "norm.vars.3", "head.inner.vars.0", "head.outer.vars.1", "optimizer.vars.0"})
        CHECK(first.contains(name));
    for (const char* form : forms) {
        CAPTURE(form);
        CHECK(contents(open_hdf5(fs::path{"testdata/keras"} / form)) == first);
    }
}

TEST_CASE("variables of the optimizer are told apart") {
    const Checkpoint checkpoint = open_hdf5("testdata/keras/tiny.h5");
    CHECK(checkpoint.format == Format::keras_legacy);
    REQUIRE(checkpoint.roles.size() == checkpoint.catalogue.tensors.size());
    for (std::size_t t = 0; t < checkpoint.roles.size(); ++t)
        CHECK((checkpoint.roles[t] == "optimizer") == checkpoint.catalogue.tensors[t].name.starts_with("optimizer."));
}

TEST_CASE("what is written for Keras is read again, each form from its own") {
    for (const char* form : forms) {
        CAPTURE(form);
        const Checkpoint source = open_hdf5(fs::path{"testdata/keras"} / form);
        const test::Scratch scratch;
        const Checkpoint again = rewritten(source, source.format, scratch);
        CHECK(again.format == source.format);
        CHECK(contents(again) == contents(source));
    }
    const test::Scratch scratch;
    CHECK_THROWS_WITH_AS(rewritten(open_hdf5("testdata/keras/tiny.keras"), Format::keras_legacy, scratch),
                         "keras-legacy files are made of keras-legacy files only: keras do not tell the names of "
                         "variables and the model's configuration",
                         Error);
}

TEST_CASE("a whole model of the old kind becomes weights of version 3, each where Keras has it") {
    const Checkpoint legacy = open_hdf5("testdata/keras/tiny.h5");
    const test::Scratch scratch;
    const Checkpoint again = rewritten(legacy, Format::keras, scratch);
    CHECK(again.format == Format::keras);
    CHECK(contents(again) == contents(legacy));
    CHECK(checkpoint_paths(again) == checkpoint_paths(open_hdf5("testdata/keras/tiny.weights.h5")));
}

TEST_CASE("layers are told by a model's configuration") {
    const auto layers = hdf5::keras_layers(R"({"class_name": "Functional", "config": {"name": "top", "layers": [
        {"class_name": "LSTM", "config": {"name": "memory"}},
        {"class_name": "LSTM", "config": {"name": "other"}},
        {"class_name": "Bidirectional", "config": {"name": "both",
            "layer": {"class_name": "GRU", "config": {"name": "forward_g"}}}},
        {"class_name": "MultiHeadAttention", "config": {"name": "mha"}},
        {"class_name": "Block", "config": {"name": "own"}},
        {"class_name": "Functional", "config": {"name": "mid", "layers": [
            {"class_name": "Sequential", "config": {"name": "deep", "layers": [
                {"class_name": "Conv2DTranspose", "config": {"name": "up"}}]}},
            {"class_name": "Dense", "config": {"name": "twice"}},
            {"class_name": "Functional", "config": {"name": "inner", "layers": [
                {"class_name": "Dense", "config": {"name": "twice"}}]}}]}}]}})");
    const auto place = [&](const char* layer, const char* directory) {
        const auto found = hdf5::place_of(layers, layer, directory);
        return found ? found->chain + " at " + found->path : "nowhere";
    };
    CHECK(place("memory", "memory/lstm_cell") == "memory/lstm_cell at layers/lstm/cell");
    CHECK(place("other", "top/other/lstm_cell") == "other/lstm_cell at layers/lstm_1/cell");
    CHECK(place("both", "both/forward_g/gru_cell") ==
          "both/forward_g/gru_cell at layers/bidirectional/forward_layer/cell");
    CHECK(place("both", "both/backward_g/gru_cell") ==
          "both/backward_g/gru_cell at layers/bidirectional/backward_layer/cell");
    CHECK(place("mha", "mha/attention_output") == "mha/attention_output at layers/multi_head_attention/output_dense");
    CHECK(place("own", "own") == "own at layers/block");
    CHECK(place("own", "own/part") == "own/part at ");
    CHECK(place("mid", "up") == "mid/deep/up at layers/functional/layers/sequential/layers/conv2d_transpose");
    CHECK(place("mid", "twice") == "nowhere");
    CHECK(place("absent", "absent") == "nowhere");
    CHECK(hdf5::keras_layers(R"({"class_name": "Mine", "config": {"units": 3}})").empty());
    CHECK(hdf5::keras_layers("no JSON").empty());
}

TEST_CASE("the variables of every Keras fixture are found, under one name in all forms") {
    const auto folder = test::fixtures();
    if (folder.empty()) return;
    std::map<std::string, std::map<std::string, std::string>> names;  // by state and variable
    for (const auto& fixture : fs::directory_iterator{folder / "hdf5"}) {
        if (!fixture.path().filename().string().starts_with("keras3")) continue;
        CAPTURE(fixture.path().string());
        const auto json = nlohmann::json::parse(read_file(fixture.path() / "fixture.json"));
        const Checkpoint checkpoint = open_hdf5(fixture.path() / "ckpt");
        const auto found = contents(checkpoint);
        nlohmann::json want = json["tensors"];
        if (json.contains("optimizer")) want.update(json["optimizer"]);
        CHECK(found.size() == want.size());
        std::map<std::string, std::string> by_path;
        for (const auto& [name, origin] : checkpoint_paths(checkpoint)) by_path[origin] = name;
        for (const auto& [path, tensor] : want.items()) {
            CAPTURE(path);
            REQUIRE(by_path.contains(path));
            CHECK(found.at(by_path[path]) == tensor["sha256"].get<std::string>());
        }
        auto& of_state = names[json["same_state_as"].get<std::string>()];
        for (const auto& [variable, path] : json["other"]["variables"].items()) {
            CAPTURE(variable);
            const std::string& name = by_path[path.get<std::string>()];
            CHECK(of_state.emplace(variable, name).first->second == name);
        }
    }
    CHECK(names.size() == 3);
}

}  // namespace tpx::formats
