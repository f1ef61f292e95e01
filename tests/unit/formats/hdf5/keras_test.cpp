// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/tree.hpp"
#include "formats/hdf5/driver.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/hdf5/keras_model.hpp"
#include "formats/hdf5/keras_variables.hpp"
#include "formats/settings/keras_config.hpp"
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
    check_no_holes(checkpoint.catalogue);
    std::map<std::string, std::string> digests;
    for (const auto& [name, bytes] : test::assemble(checkpoint.catalogue)) digests[name] = test::sha256(bytes);
    return digests;
}

/// Writes the content of `source` in a single-file format, and opens the result.
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

TEST_CASE("all Keras formats contain the same state under the same names") {
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

TEST_CASE("optimizer variables are distinguished") {
    const Checkpoint checkpoint = open_hdf5("testdata/keras/tiny.h5");
    CHECK(checkpoint.format == &keras_legacy_driver);
    REQUIRE(checkpoint.roles.size() == checkpoint.catalogue.tensors.size());
    for (std::size_t t = 0; t < checkpoint.roles.size(); ++t)
        CHECK((checkpoint.roles[t] == Role::optimizer) ==
              checkpoint.catalogue.tensors[t].name.starts_with("optimizer."));
}

TEST_CASE("each Keras format is written and read back") {
    for (const char* form : forms) {
        CAPTURE(form);
        const Checkpoint source = open_hdf5(fs::path{"testdata/keras"} / form);
        const test::Scratch scratch;
        const Checkpoint again = rewritten(source, source.format, scratch);
        CHECK(again.format == source.format);
        CHECK(contents(again) == contents(source));
    }
}

TEST_CASE("a whole model in the old format becomes weights of version 3, each where Keras stores it") {
    const Checkpoint legacy = open_hdf5("testdata/keras/tiny.h5");
    const test::Scratch scratch;
    const Checkpoint again = rewritten(legacy, &keras_driver, scratch);
    CHECK(again.format == &keras_driver);
    CHECK(contents(again) == contents(legacy));
    CHECK(checkpoint_paths(again) == checkpoint_paths(open_hdf5("testdata/keras/tiny.weights.h5")));
}

TEST_CASE("weights of version 3 become a whole model in the old format, according to its configuration") {
    const Checkpoint legacy = open_hdf5("testdata/keras/tiny.h5");
    for (const char* form : {"tiny.keras", "tiny.weights.h5", "sharded"}) {
        CAPTURE(form);
        Checkpoint source = open_hdf5(fs::path{"testdata/keras"} / form);
        const test::Scratch scratch;
        if (std::string_view{form} != "tiny.keras") {
            CHECK_THROWS_WITH_AS(
                rewritten(source, &keras_legacy_driver, scratch),
                "keras-legacy files store the model's configuration, which is missing; pass --config FILE: a "
                ".keras archive of the model, its config.json, or the output of model.to_json()",
                Error);
            add_keras_model("testdata/keras/tiny.keras", source);
        }
        const Checkpoint again = rewritten(source, &keras_legacy_driver, scratch);
        CHECK(again.format == &keras_legacy_driver);
        CHECK(contents(again) == contents(legacy));
        const auto attribute = [](const Checkpoint& checkpoint, const char* name) {
            return nlohmann::json::parse(*hdf5::text_of(checkpoint.tree->groups.at(0).attributes, name));
        };
        CHECK(attribute(again, "model_config") == attribute(legacy, "model_config"));
        // Keras omitted the optimizer in this archive, because it had saved the model in the old format before.
        for (const auto& [name, path] : checkpoint_paths(again)) {
            if (!name.starts_with("optimizer.")) CHECK(path == checkpoint_paths(legacy)[name]);
        }
    }
}

TEST_CASE("training settings are converted to those of the old format") {
    const std::string config = R"({"class_name": "Functional", "module": "keras.src.models.functional",
        "registered_name": "Functional", "config": {"name": "m", "layers": [{"module": "mine", "class_name": "Own",
            "registered_name": "pack>Own", "config": {"dtype": {"module": "keras", "shared_object_id": 5}},
            "name": "own", "build_config": {}}]}, "compile_config": {
        "optimizer": {"module": "x", "class_name": "Adam", "registered_name": "Adam", "config": {"beta_1": 0.9}},
        "loss": {"a": {"module": "builtins", "class_name": "function", "config": "my_loss", "registered_name": "function"},
                 "b": {"module": "keras.losses", "class_name": "Huber", "config": {}, "registered_name": null}},
        "metrics": ["mae"], "jit_compile": false}})";
    CHECK(hdf5::is_keras_config(config));
    CHECK(hdf5::legacy_model_config(config) ==
          R"({"class_name":"Functional","config":{"name":"m","layers":[{"class_name":"pack>Own","config":)"
          R"({"dtype":{"module":"keras"}},"name":"own"}]}})");
    CHECK(hdf5::legacy_training_config(config) ==
          R"({"loss":{"a":"my_loss","b":{"class_name":"Huber","config":{}}},"metrics":["mae"],"jit_compile":false,)"
          R"("optimizer_config":{"class_name":"Adam","config":{"beta_1":0.9}}})");
    CHECK_FALSE(hdf5::is_keras_config(R"({"model_type": "llama"})"));
    CHECK(hdf5::legacy_training_config(R"({"class_name": "Sequential", "config": {}})").empty());
    std::string deep = "1";
    for (int k = 0; k < 1000; ++k) deep = R"({"a":)" + deep + "}";
    CHECK_THROWS_AS(hdf5::legacy_model_config(R"({"class_name": "Model", "config": )" + deep + "}"), Error);
}

namespace {

/// A tree of version 3 with these datasets, and layers that are called like their groups.
hdf5::Tree tree_of(std::initializer_list<const char*> paths) {
    hdf5::Tree tree;
    for (const std::string path : paths) {
        const std::string group = path.substr(0, path.rfind('/'));
        tree.groups.push_back({group, {}});
        tree.datasets[path] = {path, {}, {}};
    }
    return tree;
}

std::string in_words(const std::vector<hdf5::KerasVariables>& layers) {
    std::string words;
    for (const hdf5::KerasVariables& layer : layers) {
        words += layer.layer + ":";
        for (const hdf5::KerasVariable& variable : layer.variables)
            words += " " + variable.name + (variable.trainable ? "" : "!");
        words += "; ";
    }
    return words;
}

}  // namespace

TEST_CASE("the old format stores trainable variables first, in the order of layers") {
    const auto words = [](std::initializer_list<const char*> paths, const std::string& layers) {
        return in_words(hdf5::keras_variables(
            tree_of(paths), R"({"class_name": "Sequential", "config": {"name": "m", "layers": [)" + layers + "]}}"));
    };
    const char* inner = R"({"class_name": "Sequential", "config": {"name": "in", "layers": [
        {"class_name": "Dense", "config": {"name": "a", "trainable": false}},
        {"class_name": "BatchNormalization", "config": {"name": "n", "center": false}},
        {"class_name": "Dense", "config": {"name": "b", "use_bias": false}}]}})";
    CHECK(words({"layers/sequential/layers/dense/vars/0", "layers/sequential/layers/dense/vars/1",
                 "layers/sequential/layers/batch_normalization/vars/0",
                 "layers/sequential/layers/batch_normalization/vars/1",
                 "layers/sequential/layers/batch_normalization/vars/2", "layers/sequential/layers/dense_1/vars/0"},
                inner) ==
          "in: in/n/gamma in/b/kernel in/a/kernel! in/a/bias! in/n/moving_mean! in/n/moving_variance!; ");
    // Input layers and operations do not count as layers, nor do the optimizer and random number generators.
    CHECK(words({"optimizer/vars/0", "layers/dense/vars/0"},
                R"({"class_name": "InputLayer", "config": {"name": "i"}},
                   {"class_name": "Add", "module": "keras.src.ops.numpy", "config": {"name": "add"}},
                   {"class_name": "Dense", "config": {"name": "d", "use_bias": false}}, {"class_name": "Flatten", "config": {"name": "f"}})") ==
          "d: d/kernel; f:; ");
    const auto fails = [&](std::initializer_list<const char*> paths, const std::string& layers, const char* what) {
        CHECK_THROWS_WITH_AS(words(paths, layers), doctest::Contains(what), Error);
    };
    const char* own =
        R"({"class_name": "Dense", "module": null, "registered_name": "p>Dense", "config": {"name": "d"}})";
    fails({"layers/dense/vars/0"}, own, "layer 'd' (of class Dense): the order of its variables");
    fails({"layers/dense/vars/0", "layers/dense/vars/1"},
          R"({"class_name": "Dense", "config": {"name": "d", "use_bias": false}})", "layer 'd' (of class Dense)");
    fails({"layers/dense/vars/0", "layers/dense/vars/2"}, R"({"class_name": "Dense", "config": {"name": "d"}})",
          "layer 'd' (of class Dense)");
    fails({"vars/0"}, R"({"class_name": "Flatten", "config": {"name": "f"}})",
          "the model itself: the order of its variables");
    fails({"layers/dense/vars/0"},
          R"({"class_name": "Dense", "config": {"name": "d", "use_bias": false}},
             {"class_name": "Dense", "config": {"name": "e"}})",
          "layer 'e' shares its variables with another model");
    fails({"layers/dense/vars/0"},
          R"({"class_name": "Dense", "config": {"name": "d", "use_bias": false}},
             {"class_name": "MultiHeadAttention", "config": {"name": "h"}})",
          "layer 'h' shares its variables with another model");
    CHECK_THROWS_WITH_AS(hdf5::keras_variables(tree_of({}), R"({"class_name": "Mine", "config": {}})"),
                         "the model is of class Mine, whose configuration lists no layers", Error);
    std::string deep = inner;
    for (int k = 0; k < 100; ++k)
        deep = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [)" + deep + "]}}";
    fails({}, deep, "nested more than 64 deep");
}

TEST_CASE("the model given for a file must be that of the file") {
    Checkpoint source = open_hdf5("testdata/keras/tiny.weights.h5");
    CHECK_THROWS_WITH_AS(add_keras_model("testdata/hdf5/good/storage.h5", source),
                         "testdata/hdf5/good/storage.h5: is not a Keras model", Error);
    CHECK_THROWS_WITH_AS(add_keras_model("testdata/llama-rope/hf/config.json", source),
                         "testdata/llama-rope/hf/config.json: is not the configuration of a Keras model", Error);
    add_keras_model("testdata/keras/tiny.h5", source);
    const test::Scratch scratch;
    CHECK(contents(rewritten(source, &keras_legacy_driver, scratch)) == contents(source));
    Checkpoint narrow = source;
    narrow.catalogue.tensors[0].shape = {1};
    CHECK_THROWS_WITH_AS(rewritten(narrow, &keras_legacy_driver, scratch), doctest::Contains("is another model"),
                         Error);
    narrow.catalogue.tensors.erase(narrow.catalogue.tensors.begin());
    CHECK_THROWS_WITH_AS(rewritten(narrow, &keras_legacy_driver, scratch),
                         doctest::Contains("tiny.h5, which is another model"), Error);
}

TEST_CASE("each format of a state in the Keras fixtures is converted to every other") {
    const auto folder = test::fixtures();
    if (folder.empty()) return;
    for (const char* from : {"weights", "sharded", "archive", "legacy"}) {
        for (const char* to : {"weights", "archive", "legacy"}) {
            CAPTURE(from);
            CAPTURE(to);
            const auto at = [&](const std::string& form) { return folder / "hdf5" / ("keras3-" + form) / "ckpt"; };
            Checkpoint source = open_hdf5(at(from));
            const Checkpoint target = open_hdf5(at(to));
            // It contains a layer of a user-defined class.
            const char* like = target.format == &keras_legacy_driver ? "legacy" : "archive";
            add_keras_model(at(like) / (target.format == &keras_legacy_driver ? "model.h5" : "model.keras"), source);
            const test::Scratch scratch;
            const Checkpoint again = rewritten(source, target.format, scratch);
            CHECK(contents(again) == contents(target));
            if (target.format == source.format) continue;
            CHECK(checkpoint_paths(again) == checkpoint_paths(target));
        }
    }
}

TEST_CASE("layers are identified by the model's configuration") {
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

TEST_CASE("the variables of every Keras fixture are found, under the same name in all formats") {
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
