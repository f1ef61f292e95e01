// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/legacy.hpp"

#include "formats/convert/conversion.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/megatron/rank_names.hpp"
#include "formats/open_source.hpp"
#include "tests/support/chunks.hpp"
#include "tests/support/families.hpp"

#include <doctest/doctest.h>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;
using test::families;

const fs::path rank_files_sample = "testdata/llama-opt/legacy-tp2-dp2";

/// A copy of the sample that may be changed.
class RankFilesCopy {
public:
    RankFilesCopy() { fs::copy(rank_files_sample, root(), fs::copy_options::recursive); }
    fs::path root() const { return scratch_.path() / "root"; }
    fs::path inner() const { return root() / "iter_0000010"; }
    std::string message() const {
        const std::string text = test::error_of([&] { open_source(root(), families(), {}); });
        const std::string prefix = inner().string();
        return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
    }

private:
    test::Scratch scratch_;
};

/// The bytes of single layers and experts.
struct Whole {
    const Source& source;
    const nlohmann::json& model;
    const std::map<std::string, std::string>& bytes;

    /// The bytes of parameter `own`, named as in rank files but with layers and experts numbered in the whole model.
    std::string find(std::string role, const std::string& own) const {
        const auto parsed = megatron::parse_rank_name(own, source.checkpoint.rank_files->spelling);
        if (role == "fp32_param" && source.checkpoint.rank_files->distributed_optimizer) role = "param";
        std::string all = bytes.at((role.empty() ? "" : "optimizer.state." + role + ".") + parsed.stored());
        take(all, parsed.layer, "layers");
        take(all, parsed.expert, "experts");
        return all;
    }

private:
    void take(std::string& all, int index, const char* count) const {
        if (index < 0) return;
        const std::size_t size = all.size() / model[count].get<std::size_t>();
        all = all.substr(static_cast<std::size_t>(index) * size, size);
    }
};

}  // namespace

TEST_CASE("rank files are assembled: weights, masters and moments") {
    for (const auto& path : {rank_files_sample, rank_files_sample / "iter_0000010"}) {
        const Source source = open_source(path, families(), {});
        CHECK(source.checkpoint.format == &megatron_driver);
        CHECK(source.checkpoint.catalogue.directory == rank_files_sample / "iter_0000010");
        CHECK(source.checkpoint.iteration == 10);
        CHECK(source.reading.family->name == "llama");
        CHECK(to_string(*source.layout) == "tp=2,dp=2,zero=1");
        check_no_holes(source.checkpoint.catalogue);
        CHECK(test::describe(source.checkpoint.catalogue.tensors, test::assemble(source.checkpoint.catalogue)) ==
              test::expected_tensors("testdata/llama-opt/legacy-tp2-dp2.json"));
    }
}

TEST_CASE("state that ranks have in common is kept as in torch_dist") {
    const Checkpoint checkpoint = open_rank_files(rank_files_sample);
    const torch::Value common = *checkpoint.common;
    CHECK(common.at("iteration").as_int() == 10);
    CHECK(common.at("checkpoint_version").as_real() == 3.0);
    CHECK(!common.find("rng_state"));
    CHECK(!common.find("model"));
    const auto groups = common.at("optimizer").at("optimizer").at("param_groups").items();
    REQUIRE(groups.size() == 2);
    CHECK(groups[0].at("step").as_int() == 10);
    CHECK(groups[1].at("wd_mult").as_real() == 0.0);
}

TEST_CASE("rank files that do not belong together are refused by name") {
    RankFilesCopy lost;
    fs::remove_all(lost.inner() / "mp_rank_01");
    CHECK(lost.message() == ": found 1 of 2 tensor-parallel ranks; mp_rank_01 is missing");
    RankFilesCopy more;
    fs::copy(more.inner() / "mp_rank_01", more.inner() / "mp_rank_02", fs::copy_options::recursive);
    CHECK(more.message() == ": found 3 tensor-parallel ranks, but args specify 2");
    RankFilesCopy mixed;
    fs::copy(mixed.inner() / "mp_rank_01", mixed.inner() / "mp_rank_01_000", fs::copy_options::recursive);
    CHECK(mixed.message() == ": directories mp_rank_00 and mp_rank_01_000 have names of different kinds");
    RankFilesCopy odd;
    fs::create_directory(odd.inner() / "mp_rank_x");
    CHECK(odd.message() == "/mp_rank_x: not named mp_rank_TT, mp_rank_TT_PPP or mp_rank_TT_PPP_EEE");
    RankFilesCopy empty;
    fs::remove(empty.inner() / "mp_rank_01/model_optim_rng.pt");
    CHECK(empty.message() == "/mp_rank_01/model_optim_rng.pt: No such file or directory");
}

TEST_CASE("a rank's file of another iteration is refused, and named with the other one (S1)") {
    const RankFilesCopy copy;
    const fs::path file = copy.inner() / "mp_rank_01/model_optim_rng.pt";
    std::string bytes;
    {
        const torch::Archive archive = torch::Archive::open(file);
        torch::Document document;
        bytes = torch::write_archive(document.with_key(archive.root(), "iteration", document.integer(11)), &archive);
    }
    test::write_text(file, bytes);
    CHECK(copy.message().starts_with("/mp_rank_01/model_optim_rng.pt: 'iteration' is 11, but 10 in "));
}

TEST_CASE("rank files are written under other layouts and read again, with either optimizer") {
    for (const char* layout : {"tp=1", "tp=2,dp=2", "tp=4,dp=3", "tp=2,pp=2,dp=5", "pp=2,first=2"}) {
        for (const bool distributed : {true, false}) {
            CAPTURE(layout);
            CAPTURE(distributed);
            Source source = open_source(rank_files_sample, families(), {});
            Target target{.layout = parse_layout(layout), .format = &megatron_driver};
            target.config["use_distributed_optimizer"] = distributed;
            const auto bytes = test::assemble(source.checkpoint.catalogue);
            const Conversion conversion = convert(source, target);
            test::Scratch scratch;
            std::map<std::string, std::string> padded = bytes;
            for (const Tensor& tensor : conversion.draft.tensors)
                padded[tensor.name].resize(volume(tensor.shape) * itemsize(tensor.dtype));
            test::write_archives(conversion.draft, padded, scratch.path());
            const Source again = open_source(scratch.path(), families(), {});
            const bool sharded = distributed && again.layout->dp > 1;
            CHECK(to_string(*again.layout) == std::string{layout} + (sharded ? ",zero=1" : ""));
            CHECK(again.checkpoint.rank_files->distributed_optimizer == distributed);
            CHECK(again.checkpoint.rank_files->plain_optimizer == !distributed);
            auto found = test::assemble(again.checkpoint.catalogue);
            if (distributed) CHECK(found == padded);
            CHECK(found.size() == padded.size());
            for (const FileEntry& file : again.checkpoint.catalogue.files)
                torch::Archive::open(again.checkpoint.catalogue.directory / file.path).check_crcs();
        }
    }
}

TEST_CASE("every fixture of rank files contains what the framework had in memory") {
    const fs::path folder = test::fixtures();
    if (folder.empty()) return;
    for (const auto& fixture : fs::directory_iterator{folder / "megatron"}) {
        if (fixture.path().filename().string().find("-legacy-") == std::string::npos) continue;
        CAPTURE(fixture.path().string());
        const nlohmann::json facts = nlohmann::json::parse(read_file(fixture.path() / "fixture.json"));
        const Source source = open_source(fixture.path() / "ckpt", families(), {});
        const auto bytes = test::assemble(source.checkpoint.catalogue);
        const Whole whole_ones{source, facts["model"], bytes};
        for (const auto& [own, want] : facts["tensors"].items())
            CHECK(test::sha256(whole_ones.find("", own)) == want["sha256"].get<std::string>());
        const nlohmann::json optimizer = facts.value("optimizer_logical", nlohmann::json::object());
        for (const auto& [own, want] : optimizer.items()) {
            const std::size_t dot = own.find('.');
            CHECK(test::sha256(whole_ones.find(own.substr(0, dot), own.substr(dot + 1))) ==
                  want["sha256"].get<std::string>());
        }
        CHECK(facts["tensors"].size() > 10);
    }
}

}  // namespace tpx::formats
