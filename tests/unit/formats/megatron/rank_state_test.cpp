// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_state.hpp"

#include "formats/megatron/muon_optimizers.hpp"
#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <array>
#include <vector>

namespace tpx::formats::megatron {
namespace {

using torch::Document;
using torch::Entry;
using torch::Value;

/// Makes common states.
class Maker {
public:
    Value dict(std::initializer_list<std::pair<const char*, Value>> items) {
        std::vector<Entry> entries;
        for (const auto& [key, value] : items) entries.push_back({document.string(key), value});
        return document.dict(entries);
    }
    Value group(bool experts, double decay, double lr) {
        return dict({{"is_expert_parallel", Value::boolean(experts)},
                     {"wd_mult", document.real(decay)},
                     {"lr", document.real(lr)}});
    }
    Value optimizer(std::vector<Value> groups) {
        return dict({{"optimizer", dict({{"param_groups", document.list(groups)}})}});
    }
    Value common(Value optimizer) { return dict({{"optimizer", optimizer}, {"iteration", document.integer(3)}}); }
    Value both(Value dense, Value experts) {
        const std::array entries{Entry{document.integer(0), dense}, Entry{document.integer(1), experts}};
        return document.dict(entries);
    }

    Document document;
};

}  // namespace

TEST_CASE("a common state has as many optimizers as Megatron expects") {
    Maker make;
    const Value dense = make.optimizer({make.group(false, 1, 0.5), make.group(false, 0, 0.25)});
    const Value one = make.common(dense);
    const Value two = make.common(make.both(dense, make.optimizer({make.group(true, 1, 0.5)})));
    CHECK(torch::equal(with_optimizers(make.document, one, true, false), two));
    CHECK(torch::equal(with_optimizers(make.document, two, false, false), one));
    CHECK(torch::equal(with_optimizers(make.document, one, false, false), one));
    CHECK(torch::equal(with_optimizers(make.document, two, true, false), two));
    const Value biased =
        make.common(make.both(dense, make.optimizer({make.group(true, 1, 0.5), make.group(true, 0, 0.25)})));
    CHECK(torch::equal(with_optimizers(make.document, one, true, true), biased));
    const Value none = make.dict({{"iteration", make.document.integer(3)}});
    CHECK(torch::equal(with_optimizers(make.document, none, true, false), none));
}

TEST_CASE("Muon and Adam remain separate optimizers, and experts have a Muon of their own") {
    Maker make;
    const auto with = [&](Value group, const char* key) {
        return make.document.with_key(group, key, make.document.real(0.9));
    };
    const Value adam =
        make.optimizer({with(make.group(false, 1, 0.5), "betas"), with(make.group(false, 0, 0.5), "betas")});
    const Value muon = make.optimizer({with(make.group(false, 1, 0.5), "momentum_beta")});
    const Value one = make.common(make.both(muon, adam));
    CHECK(torch::equal(with_optimizers(make.document, one, false, false), one));
    const std::array entries{
        Entry{make.document.integer(0), muon},
        Entry{make.document.integer(1), make.optimizer({with(make.group(true, 1, 0.5), "momentum_beta")})},
        Entry{make.document.integer(2), adam}};
    const Value two = make.common(make.document.dict(entries));
    CHECK(torch::equal(with_optimizers(make.document, one, true, false), two));
    CHECK(torch::equal(with_optimizers(make.document, two, true, false), two));
    CHECK(torch::equal(with_optimizers(make.document, two, false, false), one));
    const Value sgd = make.common(make.optimizer({with(make.group(false, 1, 0.5), "momentum")}));
    CHECK(torch::equal(with_optimizers(make.document, sgd, false, false), sgd));
}

TEST_CASE("experts with biases have an Adam of their own beside Muon") {
    Maker make;
    const auto with = [&](Value group, const char* key) {
        return make.document.with_key(group, key, make.document.real(0.9));
    };
    const auto chain = [&](std::vector<Value> optimizers) {
        Value dict = make.document.dict();
        for (std::size_t k = 0; k < optimizers.size(); ++k)
            make.document.insert(dict,
                                 std::array{Entry{make.document.integer(static_cast<std::int64_t>(k)), optimizers[k]}});
        return make.common(dict);
    };
    const Value muon = with(make.group(false, 1, 0.5), "momentum_beta");
    const Value muon_experts = with(make.group(true, 1, 0.5), "momentum_beta");
    const Value adam =
        make.optimizer({with(make.group(false, 1, 0.5), "betas"), with(make.group(false, 0, 0.25), "betas")});
    const Value adam_experts = make.optimizer({with(make.group(true, 0, 0.25), "betas")});
    const Value one = chain({make.optimizer({muon}), adam});
    const Value four = chain({make.optimizer({muon}), make.optimizer({muon_experts}), adam, adam_experts});
    CHECK(torch::equal(with_optimizers(make.document, one, true, true), four));
    CHECK(torch::equal(with_optimizers(make.document, four, true, true), four));
    CHECK(torch::equal(with_optimizers(make.document, four, false, false), one));
    // A layer-wise optimizer has all of Muon's groups; Adam for experts remains separate.
    const Value args = make.dict({{"optimizer", make.document.string("dist_muon")}});
    const auto by_layers = [&](Value common) { return make.document.with_key(common, "args", args); };
    const Value three = by_layers(chain({make.optimizer({muon, muon_experts}), adam, adam_experts}));
    CHECK(torch::equal(with_optimizers(make.document, by_layers(one), true, true), three));
    CHECK(torch::equal(with_optimizers(make.document, three, false, false), by_layers(one)));

    // Each parameter is in exactly one group.
    const std::vector<TrainedParameter> parameters{
        {"embedding.word_embeddings.weight", 2},
        {"decoder.layers.0.self_attention.linear_qkv.weight", 2},
        {"decoder.layers.0.self_attention.linear_qkv.bias", 1},
        {"decoder.layers.0.mlp.experts.local_experts.0.linear_fc1.weight", 2},
        {"decoder.layers.0.mlp.experts.local_experts.0.linear_fc1.bias", 1}};
    CHECK(members_of_muon(optimizers_of(one), parameters) == GroupMembers{{{1, 3}}, {{0}, {2, 4}}});
    CHECK(members_of_muon(optimizers_of(four), parameters) == GroupMembers{{{1}}, {{3}}, {{0}, {2}}, {{4}}});
    CHECK(members_of_muon(optimizers_of(three), parameters) == GroupMembers{{{1}, {3}}, {{0}, {2}}, {{4}}});
    const Value without = with_optimizers(make.document, one, true, false);
    CHECK_THROWS_WITH_AS(members_of_muon(optimizers_of(without), parameters),
                         "tensor 'decoder.layers.0.mlp.experts.local_experts.0.linear_fc1.bias': 0 groups of Muon and "
                         "Adam contain it; expected 1",
                         Error);
}

TEST_CASE("leftovers of a rank without experts in a common state are dropped") {
    Maker make;
    const Value dense = make.optimizer({make.group(false, 1, 0.5), make.group(false, 0, 0.25)});
    const Value experts = make.optimizer({make.group(true, 1, 0.5)});
    Value left = make.document.with_key(*experts.find("optimizer"), "state", make.document.dict());
    left = make.document.with_key(experts, "optimizer", left);
    const std::vector<Value> lists{make.document.list(std::vector<Value>{})};
    left = make.document.with_key(left, "fp32_from_fp16_params", make.document.list(lists));
    const Value common = make.common(make.both(dense, left));
    CHECK(torch::equal(with_optimizers(make.document, common, true, false), make.common(make.both(dense, experts))));
}

TEST_CASE("groups whose weight-decay multiplier is neither 0 nor 1 are not converted") {
    Maker make;
    const Value odd = make.common(make.optimizer({make.group(false, 0.5, 0.5)}));
    CHECK(torch::equal(with_optimizers(make.document, odd, false, false), odd));
    CHECK_THROWS_AS(with_optimizers(make.document, odd, true, false), Error);
}

}  // namespace tpx::formats::megatron
