// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/conversion.hpp"
#include "formats/deepspeed/deepspeed.hpp"
#include "formats/deepspeed/driver.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/open_source.hpp"
#include "tests/support/chunks.hpp"
#include "tests/unit/formats/deepspeed/samples.hpp"

#include <doctest/doctest.h>

#include <functional>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;
using test::mpu;
using test::round_robin;
using test::zero3;
using torch::Document;
using torch::Entry;
using torch::Value;

/// A copy of a checkpoint that can be damaged.
class Copy {
public:
    explicit Copy(const fs::path& of) { fs::copy(of, scratch_.path(), fs::copy_options::recursive); }

    fs::path file(const std::string& name) const { return scratch_.path() / "global_step2" / name; }
    const fs::path& path() const { return scratch_.path(); }

    /// Checks that reading fails with `cause` and names the file.
    void refused(const std::string& name, const std::string& cause) const {
        const std::string error = test::error_of([&] { open_deepspeed(scratch_.path()); });
        CAPTURE(error);
        CHECK(error.find(name) != error.npos);
        CHECK(error.find(cause) != error.npos);
    }

    /// Rewrites a file with a changed tree.
    void edit(const std::string& name, const std::function<Value(Document&, Value)>& change) const {
        std::string bytes;
        {
            const torch::Archive archive = torch::Archive::open(file(name));
            Document document;
            bytes = torch::write_archive(change(document, archive.root()), &archive);
        }
        test::write_text(file(name), bytes);
    }

    /// The same for an entry of the optimizer.
    void edit_optimizer(const std::string& name, std::string_view key,
                        const std::function<Value(Document&, Value)>& change) const {
        edit(name, [&](Document& document, Value root) {
            const Value optimizer = root.at("optimizer_state_dict");
            const Value made = document.with_key(optimizer, key, change(document, optimizer.at(key)));
            return document.with_key(root, "optimizer_state_dict", made);
        });
    }

private:
    test::Scratch scratch_;
};

const std::string optimizer1 = "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
                  optimizer11 = "bf16_zero_pp_rank_1_mp_rank_01_optim_states.pt", model = "mp_rank_00_model_states.pt",
                  model3 = "zero_pp_rank_0_mp_rank_00_model_states.pt";

Value number(Document& document, std::int64_t value) { return document.integer(value); }

Value without(Document& document, Value dict, std::string_view key) {
    std::vector<Entry> rest;
    for (const Entry& entry : dict.entries())
        if (!entry.key.is(torch::Kind::string) || entry.key.as_string() != key) rest.push_back(entry);
    REQUIRE(rest.size() + 1 == dict.entries().size());
    return document.dict(rest);
}

/// The state of an optimizer without entry `key` of its parameter 1.
Value without_state(Document& document, Value optimizer, std::string_view key) {
    const Value states = optimizer.at("state");
    std::vector<Entry> entries(states.entries().begin(), states.entries().end());
    for (Entry& entry : entries)
        if (entry.key.as_int() == 1) entry.value = without(document, entry.value, key);
    return document.with_key(optimizer, "state", document.dict(entries));
}

/// The same without entry `key` of its first group.
Value without_setting(Document& document, Value optimizer, std::string_view key) {
    const Value groups = optimizer.at("param_groups");
    std::vector<Value> rest(groups.items().begin(), groups.items().end());
    rest[0] = without(document, rest[0], key);
    return document.with_key(optimizer, "param_groups", document.list(rest));
}

}  // namespace

TEST_CASE("missing files of ranks are named") {
    Copy partitions{round_robin};
    fs::remove(partitions.file(optimizer1));
    partitions.refused("global_step2", "the optimizer file of data rank 1 and model-parallel rank 0 is missing");
    Copy last{round_robin};
    fs::remove(last.file("bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt"));
    last.refused("global_step2", "data rank 3");
    Copy models{zero3};
    fs::remove(models.file("zero_pp_rank_1_mp_rank_00_model_states.pt"));
    models.refused("global_step2", "the model file of data rank 1");
    Copy slices{mpu};
    fs::remove(slices.file("mp_rank_01_model_states.pt"));
    slices.refused(model, "1 model-parallel ranks cannot be split into tp=2");
    Copy all{round_robin};
    for (const auto& entry : fs::directory_iterator{all.path() / "global_step2"})
        if (entry.path().string().ends_with("optim_states.pt")) fs::remove(entry);
    all.refused(model, "there is no *_optim_states.pt");
}

TEST_CASE("a rank's file with another step or setting is refused (S2)") {
    const Copy steps{mpu};
    steps.edit("mp_rank_01_model_states.pt", [](Document& document, Value root) {
        return document.with_key(root, "global_steps", number(document, 7));
    });
    steps.refused("mp_rank_01_model_states.pt", "'global_steps' is 7, but 2 in ");
    const Copy partitioned{zero3};
    partitioned.edit("zero_pp_rank_1_mp_rank_00_model_states.pt", [](Document& document, Value root) {
        return document.with_key(root, "param_shapes", document.list());
    });
    partitioned.refused("zero_pp_rank_1_mp_rank_00_model_states.pt",
                        "other parameters or shapes (param_shapes) than in");
    const Copy rates{round_robin};
    rates.edit_optimizer(optimizer1, "base_optimizer_state", [](Document& document, Value base) {
        const Value groups = base.at("param_groups");
        std::vector<Value> changed(groups.items().begin(), groups.items().end());
        changed[0] = document.with_key(changed[0], "lr", document.real(7));
        return document.with_key(base, "param_groups", document.list(changed));
    });
    rates.refused(optimizer1, ".lr' is 7.0, but ");
}

TEST_CASE("a rank's file that lacks a step or a setting of the others is refused") {
    const std::string optimizer0 = "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt";
    for (const auto& [path, key] : {std::pair{round_robin, "base_optimizer_state"}, {zero3, "optimizer_state_dict"}}) {
        for (const char* setting : {"lr", "betas", "eps", "weight_decay"}) {
            const Copy copy{path};
            copy.edit_optimizer(optimizer1, key, [&](Document& document, Value inner) {
                return without_setting(document, inner, setting);
            });
            copy.refused(optimizer1, fmt::format("param_groups[0].{}", setting));
            copy.refused(optimizer1, "' is missing, but ");
        }
        for (const std::string& file : {optimizer0, optimizer1}) {
            const Copy copy{path};
            copy.edit_optimizer(file, key,
                                [](Document& document, Value inner) { return without_state(document, inner, "step"); });
            copy.refused(optimizer1, ".state.1.step' is ");
            copy.refused(optimizer0, "missing");
        }
        const Copy clipped{path};
        clipped.edit(optimizer1, [&](Document& document, Value root) {
            return document.with_key(root, "optimizer_state_dict",
                                     without(document, root.at("optimizer_state_dict"), "overflow"));
        });
        clipped.refused(optimizer1, "overflow' is missing");
    }
}

TEST_CASE("replicas of tensor ranks are compared (S3)") {
    const Checkpoint checkpoint = open_deepspeed(mpu);
    std::size_t replicas = 0;
    for (std::size_t p = 1; p < checkpoint.catalogue.pieces.size(); ++p) {
        const Piece& piece = checkpoint.catalogue.pieces[p];
        const Piece& before = checkpoint.catalogue.pieces[p - 1];
        const bool norm = checkpoint.catalogue.tensors[piece.tensor].name.ends_with("final_layernorm.weight");
        replicas += norm && piece.tensor == before.tensor && piece.box == before.box ? 1 : 0;
    }
    CHECK(replicas == 1);
}

TEST_CASE("files of two runs are not mixed") {
    Copy mixed{round_robin};
    fs::copy_file(zero3 / "global_step2" / optimizer1, mixed.file(optimizer1), fs::copy_options::overwrite_existing);
    mixed.refused(optimizer1, "'optimizer_state_dict.fp32_flat_groups' is present, but missing in ");
    Copy slices{mpu};
    fs::copy_file(mpu / "global_step2/bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt", slices.file(optimizer11),
                  fs::copy_options::overwrite_existing);
    slices.refused(optimizer11, "was saved as bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt");
    Copy ranks{round_robin};
    ranks.edit(model, [](Document& document, Value root) {
        return document.with_key(root, "dp_world_size", number(document, 2));
    });
    ranks.refused(model, "dp_world_size is 2, but there is a file of data rank 3");
    Copy more{round_robin};
    more.edit(model, [](Document& document, Value root) {
        return document.with_key(root, "dp_world_size", number(document, 8));
    });
    more.refused("global_step2", "4 optimizer files are missing: data rank 4 and model-parallel rank 0, ");
    Copy steps{round_robin};
    steps.edit_optimizer(optimizer1, "base_optimizer_state", [](Document& document, Value base) {
        const auto archive = torch::Archive::open(zero3 / "global_step2" / optimizer1);
        std::vector<Entry> states;
        for (const Entry& entry : base.at("state").entries()) states.push_back(entry);
        const Value moved = states[0].value.at("exp_avg");
        states[0].value = document.with_key(states[0].value, "exp_avg", states[1].value.at("exp_avg"));
        states[1].value = document.with_key(states[1].value, "exp_avg", moved);
        return document.with_key(base, "state", document.dict(states));
    });
    steps.refused(optimizer1, "group 0: state 'exp_avg' of");
}

TEST_CASE("partitions of inconsistent sizes are refused") {
    Copy count{round_robin};
    count.edit_optimizer(optimizer1, "partition_count", [](Document& document, Value old) {
        return document.list(std::vector<Value>(old.items().size(), number(document, 3)));
    });
    count.refused(optimizer1, "3 partitions over 4 data ranks");
    Copy few{round_robin};
    few.edit_optimizer(optimizer1, "single_partition_of_fp32_groups",
                       [](Document& document, Value old) { return document.list(old.items().subspan(1)); });
    few.refused(optimizer1, "state of parameter 2, but there are 2 groups");
    Copy padding{round_robin};
    padding.edit_optimizer(optimizer1, "group_paddings", [](Document& document, Value old) {
        return document.list(std::vector<Value>(old.items().size(), number(document, 7)));
    });
    padding.refused(optimizer1, "group_paddings is 7");
    Copy shapes{zero3};
    shapes.edit(model3, [](Document& document, Value root) {
        const Value groups = root.at("param_shapes");
        return document.with_key(root, "param_shapes", document.list(groups.items().subspan(1)));
    });
    shapes.refused("zero_pp_rank_0_mp_rank_00", "");
    Copy ranks{zero3};
    ranks.edit_optimizer(optimizer1, "partition_count", [](Document& document, Value) { return number(document, 5); });
    ranks.refused(optimizer1, "5 partitions over 2 data ranks");
}

TEST_CASE("slice mappings that point elsewhere are refused") {
    for (const auto& [key, value, cause] : {std::tuple{"start", std::int64_t{1} << 50, "elements starting at"},
                                            {"numel", -1, "gives it -1 elements"},
                                            {"start", 1, "disagree about where it lies"}}) {
        CAPTURE(key);
        Copy copy{mpu};
        copy.edit_optimizer(optimizer11, "param_slice_mappings",
                            [&, &k = key, &v = value](Document& document, Value old) {
                                std::vector<Value> groups(old.items().begin(), old.items().end());
                                const Entry first = groups[0].entries()[0];
                                const Value moved = document.with_attribute(first.value, k, number(document, v));
                                groups[0] = document.with_key(groups[0], first.key.as_string(), moved);
                                return document.list(groups);
                            });
        copy.refused(optimizer11, cause);
    }
}

TEST_CASE("a truncated file is refused wherever it ends") {
    for (const auto& [from, name] : {std::pair{round_robin, optimizer1}, {round_robin, model}, {zero3, model3}}) {
        const std::string bytes = read_file(from / "global_step2" / name);
        for (const std::size_t size : {std::size_t{0}, std::size_t{3}, bytes.size() / 2, bytes.size() - 1}) {
            CAPTURE(name);
            CAPTURE(size);
            Copy copy{from};
            test::write_text(copy.file(name), bytes.substr(0, size));
            copy.refused(name, "");
        }
    }
}

TEST_CASE("universal checkpoints say which file is wrong") {
    const test::Scratch out;
    const std::string name = "zero/language_model.encoder.final_layernorm.weight";
    Source source = open_source(mpu, {}, {});
    const Conversion conversion = convert(source, {.layout = {}, .format = &universal_driver});
    for (std::size_t f = 0; f < conversion.draft.files.size(); ++f) {
        std::string bytes(conversion.draft.files[f].size, '\0');
        for (const Draft::Fixed& fixed : conversion.draft.fixed)
            if (fixed.file == f) bytes.replace(fixed.offset, fixed.bytes.size(), fixed.bytes);
        for (const Draft::Copy& copy : conversion.draft.copies)
            if (copy.file == f)
                bytes.replace(copy.offset, copy.length, read_file(copy.source), copy.source_offset, copy.length);
        test::write_text(out.path() / conversion.draft.files[f].path, bytes);
    }
    const fs::path step = out.path() / "global_step2_universal";
    const auto error = [&] { return test::error_of([&] { open_deepspeed(out.path()); }); };
    CHECK(error().empty());
    const fs::path fp32 = step / name / "fp32.pt", other = step / name / "exp_avg.pt";
    const std::string good = read_file(fp32);
    test::write_text(fp32, good.substr(0, good.size() / 2));
    CHECK(error().find(fp32.string()) != std::string::npos);
    fs::copy_file(step / "zero/language_model.embedding.word_embeddings.weight/fp32.pt", fp32,
                  fs::copy_options::overwrite_existing);
    CHECK(error().find("has shape [101, 36], but [36] in param_shapes") != std::string::npos);
    test::write_text(fp32, good);
    fs::create_directory(step / "zero/stranger");
    fs::copy_file(other, step / "zero/stranger/exp_avg.pt");
    CHECK(error().find("'stranger': is not a trainable parameter") != std::string::npos);
    fs::remove_all(step / "zero/stranger");
    fs::remove(other);
    CHECK(find_holes(open_deepspeed(out.path()).catalogue).size() == 1);
}

}  // namespace tpx::formats
