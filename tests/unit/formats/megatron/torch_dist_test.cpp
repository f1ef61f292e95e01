// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/torch_dist.hpp"

#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"
#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace tpx::formats {
namespace {

const std::filesystem::path torch_dist_sample = "testdata/llama-small/megatron-tp2pp2";

void check_both_ways(const std::filesystem::path& root, const std::filesystem::path& expected) {
    CAPTURE(root.string());
    const Checkpoint source = test::located(open_torch_dist(root));
    const auto bytes = test::assemble(source.catalogue);
    const auto want = test::expected_tensors(expected);
    CHECK(test::describe(source.catalogue.tensors, bytes) == want);
    const test::Scratch scratch;
    Content content = test::cut_content(source.catalogue.tensors, 3, 1);
    content.source = &source;
    // With expert parallelism, experts have a separate optimizer, which the common state contains.
    content.layout.ep = static_cast<int>(integer(source.config, "expert_model_parallel_size").value_or(1));
    content.layout.dp = content.layout.ep;
    test::write_archives(draft_torch_dist(content), bytes, scratch.path());
    const Checkpoint again = test::located(open_torch_dist(scratch.path()));
    CHECK(test::describe(again.catalogue.tensors, test::assemble(again.catalogue)) == want);
    CHECK(torch::equal(*again.common, *source.common));
    CHECK(again.config == source.config);
    CHECK(again.iteration == source.iteration);
    // The random number states are those of the new ranks.
    const auto others = [](const Checkpoint& checkpoint) {
        return std::ranges::count_if(checkpoint.catalogue.objects,
                                     [](const Object& object) { return !object.name.starts_with("rng_state/"); });
    };
    CHECK(others(again) == others(source));
    CHECK(!again.planner_data);
}

/// A copy of the sample that may be changed.
class TorchDistCopy {
public:
    TorchDistCopy() { std::filesystem::copy(torch_dist_sample, root(), std::filesystem::copy_options::recursive); }
    std::filesystem::path root() const { return scratch_.path() / "root"; }
    std::filesystem::path inner() const { return root() / "iter_0000010"; }
    std::string message() const {
        const std::string text = test::error_of([&] { open_torch_dist(root()); });
        const std::string prefix = root().string() + "/";
        return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
    }

private:
    test::Scratch scratch_;
};

}  // namespace

TEST_CASE("a checkpoint of Megatron is read, written under another layout, and read again") {
    check_both_ways(torch_dist_sample, "testdata/llama-small/megatron-tp2pp2.json");
}

TEST_CASE("every torch_dist fixture is read, written under another layout, and read again") {
    const auto folder = test::fixtures();
    if (folder.empty()) return;
    for (const auto& fixture : std::filesystem::directory_iterator{folder / "megatron"})
        if (fixture.path().filename().string().find("-dist-") != std::string::npos)
            check_both_ways(fixture.path() / "ckpt", fixture.path() / "fixture.json");
}

TEST_CASE("args, iteration and ShardedObjects are found from the root and from inside") {
    for (const auto& path : {torch_dist_sample, torch_dist_sample / "iter_0000010"}) {
        const Checkpoint checkpoint = open_torch_dist(path);
        CHECK(checkpoint.catalogue.directory == torch_dist_sample / "iter_0000010");
        CHECK(checkpoint.iteration == 10);
        CHECK(checkpoint.config.at("num_layers") == ConfigValue{std::int64_t{4}});
        CHECK(checkpoint.config.at("swiglu") == ConfigValue{true});
        const auto& objects = checkpoint.catalogue.objects;
        CHECK(std::any_of(objects.begin(), objects.end(),
                          [](const Object& object) { return object.name == "rng_state/shard_1.1_2.2"; }));
    }
}

TEST_CASE("args of the new layout replace those of the old one") {
    const Checkpoint source = test::located(open_torch_dist(torch_dist_sample));
    const auto bytes = test::assemble(source.catalogue);
    const test::Scratch scratch;
    Content content = test::cut_content(source.catalogue.tensors, 1, 0);
    content.source = &source;
    content.args = {{"tensor_model_parallel_size", std::int64_t{1}}, {"tpx_new", std::string{"x"}}};
    test::write_archives(draft_torch_dist(content), bytes, scratch.path());
    Config want = source.config;
    for (const auto& [key, value] : content.args) want[key] = value;
    CHECK(open_torch_dist(scratch.path()).config == want);
}

TEST_CASE("without a Megatron source, the common state is the minimum that Megatron can read") {
    const test::Scratch scratch;
    Content content;
    content.tensors = {{"w", DType::u8, {2}}};
    content.pieces = {{0, 0, 0, {{0, 2}}, {}, 0}};
    content.args = {{"num_layers", std::int64_t{2}}, {"swiglu", true}, {"eps", 1e-5}, {"path", nullptr}};
    test::write_archives(draft_torch_dist(content), {{"w", "ab"}}, scratch.path());
    CHECK(read_file(scratch.path() / "latest_checkpointed_iteration.txt") == "1");
    const Checkpoint again = open_torch_dist(scratch.path());
    CHECK(again.config == content.args);
    CHECK(again.iteration == 1);
    CHECK(again.common->at("checkpoint_version").as_real() == 3.0);
}

TEST_CASE("a common state stored as an object, as in newer Megatron versions, is read and written as common.pt") {
    Checkpoint source = open_torch_dist(torch_dist_sample);
    const test::Scratch scratch;
    torch::Document document;
    const torch::Value state[] = {*source.common};
    const std::string archive = torch::write_archive(document.list(state));
    test::write_text(scratch.path() / "blob", archive);
    source.catalogue.directory = scratch.path();
    source.catalogue.files = {{"blob", archive.size()}};
    source.catalogue.objects = {{"common_state/shard_0_1", 0, 0, archive.size()}};
    Content content;
    content.tensors = {{"w", DType::u8, {2}}};
    content.pieces = {{0, 0, 0, {{0, 2}}, {}, 0}};
    content.source = &source;
    test::write_archives(draft_torch_dist(content), {{"w", "ab"}}, scratch.path() / "new");
    std::filesystem::remove(scratch.path() / "new/iter_0000010/common.pt");
    const Checkpoint again = open_torch_dist(scratch.path() / "new");
    CHECK(torch::equal(*again.common, *source.common));
    CHECK(again.config == source.config);
    CHECK(again.catalogue.objects.empty());
}

TEST_CASE("metadata with the class that Megatron-core 0.15 writes") {
    using namespace std::string_literals;
    TorchDistCopy copy;
    const std::filesystem::path path = copy.inner() / ".metadata";
    std::string bytes = read_file(path);
    const std::string torchs = "\x8c%torch.distributed.checkpoint.metadata\x94\x8c\x08Metadata"s;
    const std::string megatrons = "\x8c\x20megatron.core.dist_checkpointing\x94\x8c\x0dMCoreMetadata"s;
    REQUIRE(torchs.size() == megatrons.size());
    REQUIRE(bytes.find(torchs) != bytes.npos);
    test::write_text(path, bytes.replace(bytes.find(torchs), torchs.size(), megatrons));
    CHECK(open_torch_dist(copy.root()).catalogue.tensors.size() == 9);
}

TEST_CASE("incomplete torch_dist checkpoints are refused with the missing part") {
    TorchDistCopy unknown;
    test::write_text(unknown.inner() / "metadata.json", R"({"sharded_backend": "gds", "sharded_backend_version": 1})");
    CHECK(unknown.message() == "iter_0000010/metadata.json: sharded_backend is 'gds', expected 'torch_dist'");
    TorchDistCopy other;
    test::write_text(other.inner() / "metadata.json", "[");
    CHECK(other.message() == "iter_0000010/metadata.json: not JSON");
    TorchDistCopy none;
    test::write_text(none.inner() / "metadata.json", "{}");
    CHECK(none.message() == "iter_0000010/metadata.json: no sharded_backend");
    TorchDistCopy incomplete;
    std::filesystem::remove(incomplete.inner() / "metadata.json");
    CHECK(incomplete.message() ==
          "iter_0000010/metadata.json: No such file or directory; Megatron writes it last, so the checkpoint is "
          "incomplete");
    TorchDistCopy uncommon;
    std::filesystem::remove(uncommon.inner() / "common.pt");
    CHECK(uncommon.message() ==
          "iter_0000010/common.pt: No such file or directory, nor is there an object 'common_state/shard_0_1'");
    TorchDistCopy lost;
    test::write_text(lost.root() / "latest_checkpointed_iteration.txt", "ten");
    CHECK(lost.message() == "latest_checkpointed_iteration.txt: 'ten' is not an iteration");
}

}  // namespace tpx::formats
