// SPDX-License-Identifier: Apache-2.0
#include "formats/checkpoint.hpp"
#include "formats/dcp/driver.hpp"
#include "formats/deepspeed/driver.hpp"
#include "formats/gguf/driver.hpp"
#include "formats/hdf5/driver.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/recognize.hpp"
#include "formats/safetensors/driver.hpp"
#include "formats/torch/driver.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace tpx;
using namespace tpx::formats;
namespace fs = std::filesystem;

namespace {

std::string refusal(const fs::path& path) {
    try {
        open(path);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

}  // namespace

TEST_CASE("formats and their names correspond") {
    for (const Format format : {&safetensors_driver, &dcp_driver, &torch_dist_driver, &megatron_driver})
        CHECK(format_by_name(name(format)) == format);
    CHECK(name(&torch_dist_driver) == "torch_dist");
    CHECK(!format_by_name("zip"));
}

TEST_CASE("formats are detected by content") {
    CHECK(recognize("testdata/llama-small/hf").format == &safetensors_driver);
    CHECK(recognize("testdata/llama-small/hf/model.safetensors").format == &safetensors_driver);
    CHECK(recognize("testdata/safetensors/good/indexed/model.safetensors.index.json").format == &safetensors_driver);
    CHECK(recognize("testdata/llama-rope/dcp-fsdp2").format == &dcp_driver);
    const RecognizedPath root = recognize("testdata/llama-small/megatron-tp2pp2");
    CHECK(root.format == &torch_dist_driver);
    CHECK(root.path == "testdata/llama-small/megatron-tp2pp2/iter_0000010");
    CHECK(recognize(root.path).format == &torch_dist_driver);
    const RecognizedPath ranks = recognize("testdata/llama-opt/legacy-tp2-dp2");
    CHECK(ranks.format == &megatron_driver);
    CHECK(ranks.path == "testdata/llama-opt/legacy-tp2-dp2/iter_0000010");
}

TEST_CASE("a safetensors file needs no suffix; a broken file is recognized by its suffix") {
    test::Scratch scratch;
    fs::copy("testdata/llama-small/hf/model.safetensors", scratch.path() / "weights");
    CHECK(open(scratch.path() / "weights").catalogue.tensors.size() > 10);
    test::write_text(scratch.path() / "x.safetensors", "x");
    CHECK(refusal(scratch.path() / "x.safetensors").find("1 bytes are too few") != std::string::npos);
}

TEST_CASE("unsupported formats are named") {
    const std::string ending =
        "; known formats: safetensors, dcp, torch_dist, zarr, megatron, deepspeed, universal, torch, torch-legacy, "
        "hdf5, "
        "keras, keras-legacy, gguf";
    const std::vector<std::pair<std::map<std::string, std::string>, std::string>> cases{
        {{{"metadata.json", R"({"sharded_backend": "gds"})"}}, "a Megatron-core checkpoint of backend 'gds'"},
        {{{"model.pth", "PK"}}, "a torch.save checkpoint"},
        {{{"_METADATA", "{}"}},
         "an Orbax checkpoint, whose arrays lie in TensorStore's own database: restore it with orbax.checkpoint and "
         "save "
         "the arrays as safetensors (safetensors.flax.save_file)"},
        {{{"model.ckpt.index", "x"}, {"model.ckpt.data-00000-of-00001", "x"}},
         "a TensorFlow checkpoint: read it with tf.train.load_checkpoint and save the arrays as safetensors"},
        {{{"__0.metadata", ""}}, "a DCP checkpoint with a metadata file for each rank"},
    };
    for (const auto& [files, what] : cases) {
        test::Scratch scratch;
        for (const auto& [name, text] : files) test::write_text(scratch.path() / name, text);
        CHECK(refusal(scratch.path()) == scratch.path().string() + ": is " + what + ending);
    }
    for (const std::string text : {"GGUF\3", "\x89HDF\r\n\x1a\n...."}) {  // supported formats, broken files
        test::Scratch scratch;
        test::write_text(scratch.path() / "x", text);
        CHECK(refusal(scratch.path() / "x").starts_with((scratch.path() / "x").string() + ": "));
    }
}

TEST_CASE("a Megatron root leads to its iteration") {
    test::Scratch scratch;
    const fs::path tracker = scratch.path() / "latest_checkpointed_iteration.txt";
    test::write_text(scratch.path() / "iter_0000007/metadata.json", R"({"sharded_backend": "torch_dist"})");
    test::write_text(scratch.path() / "release/metadata.json", R"({"sharded_backend": "torch_dist"})");
    for (const auto& [text, name] :
         {std::pair{"7", "iter_0000007"}, {" 7 \r\n", "iter_0000007"}, {"release\n", "release"}}) {
        test::write_text(tracker, text);
        CHECK(recognize(scratch.path()).path == scratch.path() / name);
    }
    test::write_text(tracker, "8");
    CHECK(refusal(scratch.path()) == tracker.string() + ": names iter_0000008, which is missing");
    for (const char* text : {"", "../7", "-7", "7 8", "99999999999999999999"}) {
        test::write_text(tracker, text);
        CHECK(refusal(scratch.path()).find("is neither a number nor 'release'") != std::string::npos);
    }
    test::write_text(scratch.path() / "iter_0000007/metadata.json", "{");
    test::write_text(tracker, "7");
    CHECK(refusal(scratch.path()) == (scratch.path() / "iter_0000007/metadata.json").string() + ": not JSON");
}

TEST_CASE("anything else than a checkpoint is refused with the files that were looked for") {
    test::Scratch scratch;
    const auto empty = scratch.path() / "empty";  // its parent, which is also searched, contains nothing else
    std::filesystem::create_directory(empty);
    CHECK(refusal(empty).starts_with(empty.string() + ": not a checkpoint: found none of metadata.json, "));
    CHECK(refusal(scratch.path() / "absent") == (scratch.path() / "absent").string() + ": No such file or directory");
    test::write_text(scratch.path() / "text", "hello, world");
    CHECK(refusal(scratch.path() / "text").find("not a checkpoint") != std::string::npos);
}

TEST_CASE("DeepSpeed's folders are recognized by their files") {
    const std::vector<std::pair<std::map<std::string, std::string>, Format>> cases{
        {{{"latest", "global_step5\n"}, {"global_step5/mp_rank_00_model_states.pt", ""}}, &deepspeed_driver},
        {{{"latest", "global_step5\n"}, {"global_step5/x", ""}}, &deepspeed_driver},
        {{{"mp_rank_00_model_states.pt", "PK"}, {"model.safetensors", ""}}, &deepspeed_driver},
        {{{"zero_pp_rank_0_mp_rank_00_optim_states.pt", "PK"}}, &deepspeed_driver},
        {{{"zero/layer.weight/fp32.pt", "PK"}}, &universal_driver},
        {{{"latest_universal", "u"}, {"u/zero/layer.weight/fp32.pt", "PK"}}, &universal_driver},
    };
    for (const auto& [files, format] : cases) {
        test::Scratch scratch;
        for (const auto& [name, text] : files) test::write_text(scratch.path() / name, text);
        CHECK(recognize(scratch.path()).format == format);
    }
}

TEST_CASE("of the drivers that could read a file, the most specific one does") {
    const std::vector<std::tuple<std::string, std::string, Format>> cases{
        {"a.keras", "PK\3\4", &keras_driver},
        {"a.weights.json", "{}", &keras_driver},
        {"a.pt", "PK\3\4", &torch_driver},
        {"a.pt", "\x80\2\x8a", &torch_legacy_driver},
        {"a.msgpack", "\x80\2\x8a", nullptr},
        {"a", "GGUF", &gguf_driver},
        {"a.safetensors", "GGUF", &safetensors_driver},
        {"a.distcp", "PK\3\4", nullptr},
    };
    for (const auto& [name, text, format] : cases) {
        test::Scratch scratch;
        CAPTURE(name);
        test::write_text(scratch.path() / name, text);
        CHECK(recognize(scratch.path() / name).format == format);
    }
    test::Scratch scratch;
    test::write_text(scratch.path() / "pytorch_model.bin.index.json", "{}");
    const RecognizedPath index = recognize(scratch.path() / "pytorch_model.bin.index.json");
    CHECK(index.format == &torch_driver);
    CHECK(index.path == scratch.path());
}

TEST_CASE("training state takes precedence over weights, and safetensors over other weights") {
    const std::vector<std::pair<std::map<std::string, std::string>, Format>> cases{
        {{{"metadata.json", R"({"sharded_backend": "zarr"})"}, {".metadata", ""}}, &zarr_driver},
        {{{"metadata.json", R"({"sharded_backend": "other"})"}, {".metadata", ""}}, nullptr},
        {{{"metadata.json", "{}"}, {".metadata", ""}, {"model.safetensors", ""}}, &dcp_driver},
        {{{"mp_rank_00/model_optim_rng.pt", ""}, {"model.safetensors", ""}}, &megatron_driver},
        {{{"model.safetensors", ""}, {"pytorch_model.bin", ""}, {"a.gguf", ""}}, &safetensors_driver},
        {{{"pytorch_model.bin", ""}, {"a.gguf", ""}}, &torch_driver},
        {{{"a.gguf", ""}}, &gguf_driver},
        {{{"a.gguf", ""}, {"b.h5", ""}}, &hdf5_driver},
        {{{"a.gguf", ""}, {"b.pt", ""}}, nullptr},
    };
    for (const auto& [files, format] : cases) {
        test::Scratch scratch;
        CAPTURE(files.begin()->first);
        for (const auto& [name, text] : files) test::write_text(scratch.path() / name, text);
        CHECK(recognize(scratch.path()).format == format);
    }
}

TEST_CASE("checkpoints of the frameworks are recognized") {
    const fs::path root = test::fixtures();
    if (root.empty()) return;
    for (const char* group : {"safetensors", "dcp", "megatron", "deepspeed", "hdf5"}) {
        for (const fs::directory_entry& fixture : fs::directory_iterator(root / group)) {
            const fs::path json = fixture.path() / "fixture.json";
            if (!fs::exists(json)) continue;
            const std::string format = nlohmann::json::parse(read_file(json))["format"];
            CAPTURE(fixture.path().string());
            CAPTURE(format);
            const RecognizedPath found = recognize(fixture.path() / "ckpt");
            if (format.starts_with("safetensors")) CHECK(found.format == &safetensors_driver);
            if (format == "dcp") CHECK(found.format == &dcp_driver);
            if (format == "megatron-torch_dist") CHECK(found.format == &torch_dist_driver);
            if (format == "megatron-legacy") CHECK(found.description == "a Megatron legacy checkpoint");
            if (format == "deepspeed-universal") CHECK(found.format == &universal_driver);
            if (format.starts_with("deepspeed-zero")) CHECK(found.format == &deepspeed_driver);
            CHECK(!found.description.empty());
        }
    }
}

TEST_CASE("a file of torch.save is read, and a malformed one is refused with its error") {
    test::Scratch scratch;
    test::write_text(scratch.path() / "zip", "PK\3\4");
    CHECK(refusal(scratch.path() / "zip") ==
          (scratch.path() / "zip").string() + ": no end of a zip directory: not a zip archive, or truncated (4 bytes)");
    test::write_text(scratch.path() / "stream", "\x80\2\x8a");
    CHECK(refusal(scratch.path() / "stream") ==
          (scratch.path() / "stream").string() + ": neither a zip archive nor a stream of torch.save");
}
