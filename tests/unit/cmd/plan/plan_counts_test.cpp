// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/planning.hpp"

#include "formats/driver.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>

using namespace tpx;
using namespace tpx::cli;
namespace fs = std::filesystem;

namespace {

PlanReport planned(const fs::path& checkpoint, const std::string& to, const std::string& from = "",
                   const std::string& format = "") {
    PlanOptions options;
    options.checkpoint = checkpoint.string();
    options.to = to;
    options.from = from;
    options.format = format;
    options.hosts = "4x4";
    options.state = "memory";
    return make_plan_report(options);
}

std::map<Role, BytesBySource> by_role(const PlanReport& plan) {
    std::map<Role, BytesBySource> roles;
    for (std::size_t r = 0; r < plan.change.parcels.roles.size(); ++r)
        roles[plan.change.parcels.roles[r]] = plan.change.relocation.roles[r];
    return roles;
}

/// The model of the checkpoint of `plan`, with the roles that the checkpoint has.
ModelState model_of_checkpoint(const PlanReport& plan) {
    const formats::Source& source = plan.checkpoint->opened.source;
    std::map<Role, DType> dtypes;
    for (std::size_t t = 0; t < plan.checkpoint->roles_of_tensors.size(); ++t)
        dtypes.emplace(plan.checkpoint->roles[plan.checkpoint->roles_of_tensors[t]],
                       plan.checkpoint->conversion.source_tensors[t].dtype);
    std::vector<StateRole> roles;
    for (const Role role : {Role::weight, Role::master, Role::exp_avg, Role::exp_avg_sq})
        if (dtypes.contains(role)) roles.push_back({role, dtypes.at(role)});
    return model_of(*source.reading.family, source.reading.source(), source.reading.config, roles);
}

Index padded(Index size, Index pad, int tp) { return (size + pad * tp - 1) / (pad * tp) * (pad * tp); }

/// Checkpoints store the padding of a vocabulary, unlike models: adds to the model the padding that both layouts have.
/// Returns whether both have the same padding, so that they split at the same rows.
bool add_padding(ModelState& model, const Layout& from, const Layout& to) {
    bool alike = true;
    for (TensorClass& kind : model.classes) {
        if (kind.pad == 0) continue;
        Index& size = kind.shape[kind.tp_axis];
        const Index before = padded(size, kind.pad, from.tp);
        const Index after = padded(size, kind.pad, to.tp);
        alike = alike && before == after;
        size = std::min(before, after);
        kind.pad = 0;
    }
    return alike;
}

std::uint64_t total(const std::vector<std::uint64_t>& bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

PlanReport planned_model(const PlanReport& like, const ModelState& model) {
    PlanOptions options;
    options.state = like.change.state == StateMedium::shared ? "shared" : "memory";
    PlanReport plan;
    plan_model(plan, model, *like.from, like.to, like.change.hosts, like.change.old_ranks, options);
    return plan;
}

/// Checks that a plan of the checkpoint has the same counts as a plan of its model: needed bytes and, if `exactly`,
/// kept and moved bytes, by role and by rank. Otherwise, tensors that the checkpoint stores fused may be split at rows
/// other than those of their parts.
void check_like_model(const fs::path& checkpoint, const std::string& to, bool exactly) {
    CAPTURE(checkpoint.string());
    CAPTURE(to);
    std::optional<PlanReport> plan;
    try {
        plan = planned(checkpoint, to);
    } catch (const Error& error) {
        REQUIRE(error.exit() == Exit::usage);  // the layout is invalid for these sizes or this format
        return;
    }
    REQUIRE(plan->from);
    ModelState described = model_of_checkpoint(*plan);
    const bool megatron = plan->checkpoint->target.format->has_args;
    // Other formats do not pad, and split like torch.chunk.
    for (TensorClass& kind : described.classes)
        if (!megatron && kind.pad > 0) kind.pad = 1;
    const bool same_rows = !megatron || add_padding(described, *plan->from, plan->to);
    const PlanReport model = planned_model(*plan, described);
    // The ranks of Megatron's distributed optimizer hold parts of flat buffers. A model description has none, so that
    // the best placement can differ. tests/plan/count.py counts the bytes of each rank.
    const bool buffers = (plan->checkpoint->opened.source.checkpoint.format->has_args && plan->from->zero > 0) ||
                         (megatron && plan->to.zero > 0);
    const auto of_model = by_role(model);
    const auto of_checkpoint = by_role(*plan);
    for (const auto& [role, bytes] : of_model) {
        CAPTURE(name(role));
        REQUIRE(of_checkpoint.contains(role));
        const BytesBySource& counted = of_checkpoint.at(role);
        CHECK(counted.needed == bytes.needed);
        if (!same_rows || !exactly || buffers) continue;
        CHECK(counted.kept + counted.local == bytes.kept + bytes.local);
        CHECK(counted.same_host == bytes.same_host);
        CHECK(counted.other_host == bytes.other_host);
    }
    if (!same_rows || !exactly) return;
    if (buffers) {
        CHECK(total(plan->change.held_before) == total(model.change.held_before));
        CHECK(total(plan->change.held_after) == total(model.change.held_after));
        return;
    }
    if (of_checkpoint.size() == of_model.size()) {
        CHECK(plan->change.held_before == model.change.held_before);
        CHECK(plan->change.held_after == model.change.held_after);
    }
    CHECK(plan->change.relocation.bound == model.change.relocation.bound);
}

const std::vector<std::string> layouts{"tp=1",
                                       "tp=2",
                                       "dp=4",
                                       "tp=2,dp=2",
                                       "pp=2,dp=2",
                                       "dp=4,zero=1",
                                       "tp=2,dp=4,zero=1",
                                       "pp=2,dp=3,zero=2",
                                       "tp=2,dp=2,zero=3",
                                       "cp=2,dp=2,zero=1",
                                       "fsdp=4",
                                       "fsdp=3,tp=2",
                                       "dp=4,fsdp=2",
                                       "ep=2,dp=2,zero=1",
                                       "ep=2,dp=4,zero=1",
                                       "tp=2,ep=2,dp=2,etp=1,zero=1"};

/// The bytes of a role that all ranks need, from names, shapes and degrees only: TP ranks replicate norms and split
/// everything else of a Llama.
std::uint64_t simple_count(const Catalogue& catalogue, std::string_view prefix, int tp, int copies) {
    std::uint64_t bytes = 0;
    for (const Tensor& tensor : catalogue.tensors) {
        if (!tensor.name.starts_with(prefix)) continue;
        const bool whole = tensor.name.find("norm") != std::string::npos;
        bytes += static_cast<std::uint64_t>(volume(tensor.shape) * itemsize(tensor.dtype)) * (whole ? tp : 1);
    }
    return bytes * static_cast<std::uint64_t>(copies);
}

}  // namespace

TEST_CASE("T14: state that ZeRO shards is needed once, weights by every replica") {
    const PlanReport plan = planned("testdata/llama-opt/legacy-tp2-dp2", "tp=2,dp=4,zero=1");
    const auto roles = by_role(plan);
    const PlanReport once = planned("testdata/llama-opt/legacy-tp2-dp2", "tp=2");
    const auto whole = by_role(once);
    CHECK(roles.at(Role::weight).needed == 4 * whole.at(Role::weight).needed);
    for (const Role role : {Role::master, Role::exp_avg, Role::exp_avg_sq}) {
        CAPTURE(name(role));
        CHECK(roles.at(role).needed == whole.at(role).needed);
        CHECK(roles.at(role).needed == 2 * whole.at(Role::weight).needed);  // f32 instead of bf16
    }
    CHECK(to_string(*plan.from) == "tp=2,dp=2,zero=1");
}

TEST_CASE("T14: plans of a checkpoint and of its model have the same counts") {
    std::vector<fs::path> checkpoints{"testdata/llama-opt/legacy-tp2-dp2",
                                      "testdata/llama-small/hf",
                                      "testdata/llama-small/megatron-tp2pp2",
                                      "testdata/llama-rope/hf",
                                      "testdata/llama-hf",
                                      "testdata/megatron/f16/dist"};
    for (const fs::path& checkpoint : checkpoints)
        for (const std::string& to : layouts) check_like_model(checkpoint, to, true);
    const fs::path folder = test::fixtures();
    if (folder.empty()) return;
    checkpoints.clear();
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / "megatron")) {
        const std::string name = entry.path().filename().string();
        if (name.find("-opt-") != name.npos || name.find("-x-") != name.npos || name.starts_with("moe-small-dist"))
            checkpoints.push_back(entry.path() / "ckpt");
    }
    for (const char* name : {"hf-llama-single", "hf-qwen2-tied", "hf-qwen3moe-sharded", "hf-gpt2-small"})
        checkpoints.push_back(folder / "safetensors" / name / "ckpt");
    for (const fs::path& checkpoint : checkpoints) {
        for (const std::string& to : layouts) {
            const bool uneven = to.find("=3") != to.npos || checkpoint.string().find("gpt2-x-") != std::string::npos;
            check_like_model(checkpoint, to, !uneven);
        }
    }
}

TEST_CASE("T14: needed bytes equal a simple count") {
    const fs::path checkpoint = "testdata/dcp/fsdp2-tp2";
    for (const auto& [to, tp, copies] : {std::tuple{"tp=1", 1, 1},
                                         {"tp=2", 2, 1},
                                         {"fsdp=4", 1, 1},
                                         {"dp=4", 1, 4},
                                         {"tp=2,dp=6,fsdp=2", 2, 3},
                                         {"dp=4,zero=3", 1, 1}}) {
        CAPTURE(to);
        const PlanReport plan = planned(checkpoint, to);
        const Catalogue& catalogue = plan.checkpoint->opened.source.checkpoint.catalogue;
        std::uint64_t weights = 0;
        for (const auto& [role, bytes] : by_role(plan))
            if (role == Role::weight) weights = bytes.needed;
        CHECK(weights == simple_count(catalogue, "", tp, copies) - simple_count(catalogue, "train", tp, copies));
    }
}

TEST_CASE("T14: a DeepSpeed plan counts masters as masters, weights on every data rank and partitions once") {
    const PlanReport plan = planned("testdata/deepspeed/zero2-roundrobin-dp4", "dp=2,zero=2");
    const formats::Source& source = plan.checkpoint->opened.source;
    std::map<Role, std::uint64_t> stored;
    for (std::size_t t = 0; t < source.checkpoint.roles.size(); ++t) {
        const Tensor& tensor = source.checkpoint.catalogue.tensors[t];
        stored[source.checkpoint.roles[t]] += static_cast<std::uint64_t>(volume(tensor.shape) * itemsize(tensor.dtype));
    }
    auto roles = by_role(plan);
    for (const Role role : {Role::master, Role::exp_avg, Role::exp_avg_sq}) CHECK(roles[role].needed == stored[role]);
    CHECK(!roles.contains(Role::weight));
    const std::vector<std::string>& notes = plan.checkpoint->conversion.notes;
    CHECK(std::ranges::any_of(notes,
                              [](const std::string& note) { return note.starts_with("not counted: 20 weights"); }));
}
