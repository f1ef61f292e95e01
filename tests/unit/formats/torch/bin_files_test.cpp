// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/bin_files.hpp"

#include "formats/safetensors/driver.hpp"
#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

/// A copy of testdata/llama-bin that tests may damage.
class Copy {
public:
    Copy() : path_{(fs::temp_directory_path() / "tpx-bin-test-XXXXXX").string()} {
        REQUIRE(::mkdtemp(path_.data()) != nullptr);
        fs::copy("testdata/llama-bin", path_, fs::copy_options::recursive);
    }
    ~Copy() { fs::remove_all(path_); }

    fs::path operator/(const char* name) const { return fs::path{path_} / name; }
    const std::string& path() const { return path_; }

    void change_index(const std::string& from, const std::string& to) const {
        const fs::path index = *this / "pytorch_model.bin.index.json";
        std::stringstream text;
        text << std::ifstream{index}.rdbuf();
        std::string changed = text.str();
        const std::size_t at = changed.find(from);
        REQUIRE(at != std::string::npos);
        std::ofstream{index} << changed.replace(at, from.size(), to);
    }

    std::string refusal() const {
        try {
            open(path_);
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    }

private:
    std::string path_;
};

}  // namespace

TEST_CASE("files of torch.save with an index are a Hugging Face checkpoint") {
    for (const char* name : {"llama-bin", "llama-bin/pytorch_model.bin.index.json"}) {
        const Checkpoint checkpoint = open(fs::path{"testdata"} / name);
        CHECK(checkpoint.format == &safetensors_driver);
        CHECK(checkpoint.catalogue.files.size() == 2);
        CHECK(checkpoint.catalogue.tensors.size() == 12);
        CHECK(checkpoint.catalogue.pieces.size() == 12);
        CHECK(integer(checkpoint.config, "num_hidden_layers") == 1);
        CHECK(checkpoint.companions == std::vector<fs::path>{"config.json"});
    }
}

TEST_CASE("one file without an index is one, too") {
    const Copy copy;
    fs::remove(copy / "pytorch_model.bin.index.json");
    fs::rename(copy / "pytorch_model-00001-of-00002.bin", copy / "pytorch_model.bin");
    CHECK(open(copy.path()).catalogue.files.size() == 1);
}

TEST_CASE("an index that contradicts its files is refused") {
    const char* const norm = "\"model.norm.weight\": \"pytorch_model-00002-of-00002.bin\"";
    SUBCASE("another file") {
        const Copy copy;
        copy.change_index(norm, "\"model.norm.weight\": \"pytorch_model-00001-of-00002.bin\"");
        CHECK(
            copy.refusal().ends_with("tensor 'model.norm.weight': pytorch_model-00002-of-00002.bin has it instead of "
                                     "pytorch_model-00001-of-00002.bin"));
    }
    SUBCASE("a tensor that no file has") {
        const Copy copy;
        copy.change_index(norm, std::string{norm} + ", \"lost\": \"pytorch_model-00002-of-00002.bin\"");
        CHECK(copy.refusal().ends_with("tensor 'lost': pytorch_model-00002-of-00002.bin lacks it"));
    }
    SUBCASE("a tensor that the index does not have") {
        const Copy copy;
        copy.change_index(norm, "\"lost\": \"pytorch_model-00002-of-00002.bin\"");
        CHECK(copy.refusal().ends_with(
            "tensor 'model.norm.weight': pytorch_model-00002-of-00002.bin has it, but the index does not"));
    }
    SUBCASE("a file that is missing") {
        const Copy copy;
        fs::remove(copy / "pytorch_model-00002-of-00002.bin");
        CHECK(copy.refusal().find("pytorch_model-00002-of-00002.bin") != std::string::npos);
    }
    SUBCASE("a file outside the directory") {
        const Copy copy;
        copy.change_index(norm, "\"model.norm.weight\": \"../x.bin\"");
        CHECK(copy.refusal().find("is not a file inside") != std::string::npos);
    }
}

}  // namespace tpx::formats
