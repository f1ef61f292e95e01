// SPDX-License-Identifier: Apache-2.0
#include "formats/values/training_values.hpp"

#include "formats/settings/training_args.hpp"
#include "formats/values/value_paths.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

using namespace tpx;

namespace {

/// The text of a value; empty if there is none.
std::string text_of(const formats::TrainingValues& all, const std::string& path, const std::string& place = "") {
    const auto found = std::ranges::find_if(
        all.values, [&](const formats::TrainingValue& value) { return value.path == path && value.place == place; });
    return found == all.values.end() ? "" : found->text;
}

}  // namespace

TEST_CASE("T9: the meaning of a value does not depend on the format that stores it") {
    struct Case {
        std::string_view stored, role, path;
    };
    for (const Case& one :
         {Case{"opt_param_scheduler.num_steps", "scheduler", "opt_param_scheduler.num_steps"},
          Case{"optimizer.0.grad_scaler.scale", "settings", "grad_scaler.scale"},
          Case{"optimizer.loss_scaler.cur_scale", "settings", "loss_scaler.cur_scale"},
          Case{"optimizer.optimizer.param_groups.1.wd_mult", "settings", "param_groups.wd_mult"},
          Case{"app.optim.param_groups.0.amsgrad", "settings", "param_groups.amsgrad"},
          Case{"optimizer.param_groups.3.step", "step", "step"}, Case{"args.seq_length", "args", "args.seq_length"},
          Case{"iteration", "counters", "iteration"},
          Case{"dataloader.cursor.shard", "data", "dataloader.cursor.shard"},
          Case{"random_rng_state", "rng", "random_rng_state"}, Case{"note", "extra", "note"}}) {
        CAPTURE(one.stored);
        const formats::ValuePath found = formats::classify(one.stored);
        CHECK(found.role == one.role);
        CHECK(found.path == one.path);
        CHECK(!formats::is_bookkeeping(one.stored));
    }
}

TEST_CASE("T9: layout and bookkeeping are not training state") {
    for (const char* path : {"args.tensor_model_parallel_size", "args.world_size", "args.save", "args.ckpt_format",
                             "args.padded_vocab_size", "args.use_distributed_optimizer", "args.tensorboard_dir",
                             "dp_world_size", "optimizer.param_slice_mappings", "optimizer.partition_count",
                             "ds_config.train_batch_size", "optimizer.param_groups.0.params", "checkpoint_version"}) {
        CAPTURE(path);
        CHECK(formats::is_bookkeeping(path));
    }
    for (const char* arg : {"seed", "lr", "num_layers", "rotary_base", "global_batch_size", "bf16", "swiglu"})
        CHECK(formats::megatron::describes_training(arg));
}

TEST_CASE("values of Megatron's checkpoints, of the job and of its ranks") {
    const formats::Checkpoint dist = formats::open("testdata/llama-small/megatron-tp2pp2");
    const formats::TrainingValues values = formats::training_values(dist);
    CHECK(values.unread.empty());
    CHECK(text_of(values, "args.num_layers") == "4");
    CHECK(text_of(values, "args.tensor_model_parallel_size").empty());
    CHECK(!text_of(values, "rng_state.0.torch_rng_state", "pp 1 tp 1 ep 0").empty());
    const formats::TrainingValues legacy = formats::training_values(formats::open("testdata/llama-opt/legacy-tp2-dp2"));
    CHECK(text_of(legacy, "step") == "10");
    CHECK(text_of(legacy, "opt_param_scheduler.num_steps") == "640");
    CHECK(text_of(legacy, "param_groups.wd_mult") == "0.0; 1.0");
}

TEST_CASE("values of a model's configuration") {
    const formats::TrainingValues values = formats::training_values(formats::open("testdata/llama-small/hf"));
    CHECK(text_of(values, "config.num_hidden_layers") == "4");
    CHECK(text_of(values, "config.transformers_version").empty());
}

TEST_CASE("an empty dict or list counts as missing") {
    for (const char* text : {"{}", "[]", "None"}) CHECK(formats::is_default("state", text));
    CHECK(!formats::is_default("state", "[0]"));
}

TEST_CASE("entries of parameter groups are distinguished from the values around them") {
    struct Case {
        std::string_view path, optimizer, group, key;
    };
    for (const Case& one : {Case{"opt_d.param_groups.0.lr", "opt_d", "0", "lr"},
                            Case{"optimizer.param_groups.0.step", "optimizer", "0", "step"},
                            Case{"param_groups.10.params", "", "10", "params"},
                            Case{"optim.param_groups.layers.0.weight.lr", "optim", "layers.0.weight", "lr"}}) {
        CAPTURE(one.path);
        const auto found = formats::group_path(one.path);
        REQUIRE(found);
        CHECK(found->optimizer == one.optimizer);
        CHECK(found->group == one.group);
        CHECK(found->key == one.key);
    }
    for (const char* path :
         {"param_groups", "optimizer.param_groups.0.fused", "args.param_groups_kind.0.lr", "optimizer.state.0.lr"}) {
        CAPTURE(path);
        CHECK(!formats::group_path(path));
    }
}

TEST_CASE("each optimizer of a file has its groups") {
    const formats::TrainingValues values =
        formats::training_values(formats::open("testdata/training/two-optimizers.pt"));
    REQUIRE(values.groups.size() == 3);
    CHECK(values.groups[1].optimizer == "opt_d");
    CHECK(values.groups[1].settings.at("momentum") == std::set<std::string>{"0.75"});
    CHECK(!values.groups[1].settings.contains("betas"));
    CHECK(values.groups[2].optimizer == "opt_g");
    CHECK(values.groups[2].settings.at("lr") == std::set<std::string>{"0.01"});
}
