// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/compare.hpp"

#include "cmd/jobs/open_checkpoint.hpp"
#include "formats/convert/missing_parts.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "lib/exec/mpi.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

using namespace tpx;

namespace {

namespace fs = std::filesystem;

cli::OpenedCheckpoint open(const fs::path& path) { return cli::open_checkpoint(path.string(), {}); }

cli::Comparison compare(const fs::path& a, const fs::path& b) {
    cli::OpenedCheckpoint first = open(a), second = open(b);
    return cli::compare(mpi::Comm{}, first.source, second.source, {});
}

/// Removes tensor `t` from an open checkpoint, as if it were not in its files.
void remove(formats::Source& source, std::size_t t) {
    formats::Checkpoint& checkpoint = source.checkpoint;
    const auto at = [&](auto& list) {
        if (!list.empty()) list.erase(list.begin() + static_cast<std::ptrdiff_t>(t));
    };
    at(checkpoint.catalogue.tensors);
    at(checkpoint.roles);
    at(checkpoint.parameters);
    at(source.reading.meanings);
    std::vector<Piece>& pieces = checkpoint.catalogue.pieces;
    for (std::size_t p = pieces.size(); p-- > 0;) {
        if (pieces[p].tensor > t)
            --pieces[p].tensor;
        else if (pieces[p].tensor == t) {
            pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(p));
            if (!checkpoint.archives.empty())
                checkpoint.archives.erase(checkpoint.archives.begin() + std::ptrdiff_t(p));
            if (!checkpoint.archive_slices.empty())
                checkpoint.archive_slices.erase(checkpoint.archive_slices.begin() + std::ptrdiff_t(p));
        }
    }
}

/// A weight with a master, by the names of the dialect or by the format.
std::optional<std::size_t> weight_with_master(const formats::Source& source) {
    const auto& meanings = source.reading.meanings;
    const auto& checkpoint = source.checkpoint;
    for (std::size_t t = 0; t < meanings.size(); ++t) {
        if (meanings[t].role != Role::weight || meanings[t].kind == Meaning::Kind::extra) continue;
        for (std::size_t m = 0; m < meanings.size(); ++m) {
            const bool same_rule = meanings[t].rule != nullptr && meanings[m].rule == meanings[t].rule &&
                                   meanings[m].indices.layer == meanings[t].indices.layer &&
                                   meanings[m].indices.expert == meanings[t].indices.expert;
            const bool same_name =
                checkpoint.catalogue.tensors[m].name.starts_with(checkpoint.catalogue.tensors[t].name + "/");
            const bool master =
                meanings[m].role == Role::master || (!checkpoint.roles.empty() && checkpoint.roles[m] == Role::master);
            if (master && (same_rule || same_name)) return t;
        }
    }
    return std::nullopt;
}

/// Whether `comparison` lists weight `name`, which side `lacking` lacks.
bool lists(const cli::Comparison& comparison, const std::string& name, char lacking) {
    return std::ranges::any_of(comparison.differences, [&](const auto& difference) {
        return difference.name == name && difference.role == "weight" && difference.lacking == lacking;
    });
}

/// Compares the checkpoint at `path`, in both directions, with itself without one weight that has a master. Returns
/// false if no weight has a master.
bool check_lost_weight(const fs::path& path) {
    CAPTURE(path.string());
    for (const char lacking : {'A', 'B'}) {
        cli::OpenedCheckpoint whole = open(path), lost = open(path);
        const auto weight = weight_with_master(lost.source);
        if (!weight) return false;
        const std::string name = lost.source.checkpoint.catalogue.tensors[*weight].name;
        CAPTURE(name);
        remove(lost.source, *weight);
        formats::Source& a = lacking == 'A' ? lost.source : whole.source;
        formats::Source& b = lacking == 'A' ? whole.source : lost.source;
        const cli::Comparison comparison = cli::compare(mpi::Comm{}, a, b, {});
        CHECK(!comparison.equal());
        CHECK(lists(comparison, name, lacking));
    }
    return true;
}

}  // namespace

TEST_CASE("a weight that was deleted from a model file of ZeRO 2 is a difference, although its master exists") {
    const test::Scratch scratch;
    const fs::path whole = "testdata/deepspeed/zero2-roundrobin-dp4", lost = scratch.path() / "lost";
    fs::copy(whole, lost, fs::copy_options::recursive);
    const fs::path file = lost / "global_step2/mp_rank_00_model_states.pt";
    std::string bytes, name;
    {
        const torch::Archive archive = torch::Archive::open(file);
        torch::Document document;
        const torch::Value root = archive.root(), module = root.at("module");
        std::vector<torch::Entry> entries(module.entries().begin(), module.entries().end());
        const auto bias = std::ranges::find_if(
            entries, [](const torch::Entry& entry) { return entry.key.as_string().ends_with("up.bias"); });
        REQUIRE(bias != entries.end());
        name = bias->key.as_string();
        entries.erase(bias);
        bytes = torch::write_archive(document.with_key(root, "module", document.dict(entries)), &archive);
    }
    test::write_text(file, bytes);
    // The partitions of this checkpoint follow the order of the module's parameters, and one of these is missing.
    CHECK_THROWS_AS(compare(whole, lost), Error);
    CHECK_THROWS_AS(compare(lost, whole), Error);
    CHECK(formats::missing_parts(open(whole).source).empty());
    const std::vector<std::string> missing = formats::missing_parts(open(lost).source);
    REQUIRE(missing.size() == 1);
    CHECK(missing[0] == "tensor '" + name + "': only its master weight is stored");
}

TEST_CASE("a weight that one side lacks although it has its master is a difference in every format") {
    CHECK(check_lost_weight("testdata/deepspeed/zero2-roundrobin-dp4"));
    CHECK(check_lost_weight("testdata/deepspeed/mpu-tp2-dp2"));
    CHECK(check_lost_weight("testdata/llama-opt/legacy-tp2-dp2"));
    CHECK_FALSE(check_lost_weight("testdata/deepspeed/zero3-subgroups-dp2"));
    const fs::path all = test::fixtures();
    if (all.empty()) return;
    for (const char* folder : {"megatron", "deepspeed", "dcp"}) {
        std::size_t checked = 0;
        for (const auto& entry : fs::directory_iterator{all / folder})
            if (fs::is_directory(entry.path() / "ckpt")) checked += check_lost_weight(entry.path() / "ckpt") ? 1 : 0;
        MESSAGE(folder << ": " << checked << " checkpoints have masters beside weights");
    }
}

TEST_CASE("a weight that another checkpoint lost is a difference to ZeRO 3, which stores masters only") {
    const fs::path zero3 = "testdata/deepspeed/zero3-subgroups-dp2";
    cli::OpenedCheckpoint a = open(zero3), b = open("testdata/deepspeed/zero2-roundrobin-dp4");
    const auto weight = weight_with_master(b.source);
    REQUIRE(weight);
    const std::string name = b.source.checkpoint.catalogue.tensors[*weight].name;
    remove(b.source, *weight);
    const cli::Comparison comparison = cli::compare(mpi::Comm{}, a.source, b.source, {});
    CHECK(std::ranges::any_of(comparison.differences, [&](const auto& difference) {
        return difference.cause == "B lacks its weight" && difference.name.starts_with(name);
    }));
}

TEST_CASE("a tensor that config.json requires is missing in a layer if other layers have it") {
    const auto without = [](const std::string& part) {
        cli::OpenedCheckpoint opened = open("testdata/adapters/experts-base");
        const auto& tensors = opened.source.checkpoint.catalogue.tensors;
        for (std::size_t t = tensors.size(); t-- > 0;)
            if (tensors[t].name.find(part) != std::string::npos) remove(opened.source, t);
        return formats::missing_parts(opened.source);
    };
    using Lines = std::vector<std::string>;
    CHECK(without("nothing").empty());
    CHECK(without("layers.1.mlp.gate.") == Lines{"layer 1: no tensor 'model.layers.1.mlp.gate.weight' is stored"});
    CHECK(
        without("layers.0.mlp.experts.") ==
        Lines{
            "layer 0: no tensor 'model.layers.0.mlp.experts.0.down_proj.weight' is stored, but config.json requires it",
            "layer 0: no tensor 'model.layers.0.mlp.experts.0.gate_proj.weight' is stored, but config.json requires it",
            "layer 0: no tensor 'model.layers.0.mlp.experts.0.up_proj.weight' is stored, but config.json requires it"});
    CHECK(without("layers.1.mlp.experts.2.down") ==
          Lines{"layer 1: no tensor 'model.layers.1.mlp.experts.2.down_proj.weight' of expert 2 is stored"});
    CHECK(without("mlp.gate.") == Lines{"layers 0 to 1: no tensor 'model.layers.0.mlp.gate.weight' is stored"});
    CHECK(without("q_norm.").empty());  // another kind of model
}
