// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/universal_info.hpp"

#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

#include <set>

namespace tpx::formats::deepspeed {
namespace {

using torch::Document;
using torch::Entry;
using torch::Value;

/// Builds universal_checkpoint_info.
class Info {
public:
    Info() { root_ = document_.dict(); }
    Info& list(std::string_view key, std::initializer_list<std::string_view> patterns) {
        std::vector<Value> items;
        for (const auto text : patterns) items.push_back(document_.string(text));
        return set(root_, key, document_.list(items));
    }
    Info& number(std::string_view key, std::int64_t value) { return set(root_, key, document_.integer(value)); }
    Info& sub_parameters(std::string_view pattern, Value shape, std::int64_t dim) {
        Value entry = document_.dict();
        const Value text = document_.string(pattern);
        set(entry, "patterns", document_.list({&text, 1}));
        set(entry, "shape", shape);
        set(entry, "partition_dim", document_.integer(dim));
        return set(root_, "parameter_with_sub_params", document_.list({&entry, 1}));
    }
    Value tuple(std::initializer_list<Value> items) { return document_.tuple({items.begin(), items.size()}); }
    Value integer(std::int64_t value) { return document_.integer(value); }
    UniversalInfo made() { return UniversalInfo{root_}; }

private:
    Info& set(Value dict, std::string_view key, Value value) {
        const Entry entry{document_.string(key), value};
        document_.insert(dict, {&entry, 1});
        return *this;
    }
    Document document_;
    Value root_;
};

/// The global row of axis 0 for each local row of each rank; -1 for rows that are cut off.
std::vector<std::vector<Index>> rows(const Slicing& slicing, std::span<const Shape> locals) {
    std::vector<std::vector<Index>> all;
    for (std::size_t rank = 0; rank < locals.size(); ++rank) {
        all.emplace_back(locals[rank][0], -1);
        for (const SliceBlock& block : slicing.blocks[rank])
            for (Index row = block.local[0].begin; row < block.local[0].end; ++row)
                all.back()[row] = row + block.shift[0];
    }
    return all;
}

}  // namespace

TEST_CASE("slices are joined according to their patterns") {
    const std::vector<Shape> locals{{4, 3}, {4, 3}};
    const auto info = Info{}
                          .list("tp_replicated_parameter_patterns", {"norm"})
                          .list("parameter_with_row_parallelism_patterns", {"row"})
                          .list("parameter_with_2_sub_params_cat_dim_0", {"glu"})
                          .list("vocabulary_parameter_patterns", {"vocab"})
                          .number("original_vocab_size", 7)
                          .made();
    CHECK(info.slicing("norm", locals).whole == Shape{4, 3});
    CHECK(info.slicing("norm", locals).blocks[1].empty());
    CHECK(info.slicing("row", locals).whole == Shape{4, 6});
    CHECK(info.slicing("row", locals).blocks[1][0].shift == Tuple<Index>{0, 3});
    CHECK(rows(info.slicing("column", locals), locals) == std::vector<std::vector<Index>>{{0, 1, 2, 3}, {4, 5, 6, 7}});
    CHECK(rows(info.slicing("glu", locals), locals) == std::vector<std::vector<Index>>{{0, 1, 4, 5}, {2, 3, 6, 7}});
    const Slicing vocabulary = info.slicing("vocab", locals);
    CHECK(vocabulary.whole == Shape{7, 3});
    CHECK(rows(vocabulary, locals) == std::vector<std::vector<Index>>{{0, 1, 2, 3}, {4, 5, 6, -1}});
    CHECK(info.slicing("vocab", std::vector<Shape>{{8, 3}}).whole == Shape{7, 3});
}

TEST_CASE("sub-parameters are sliced one by one") {
    const std::vector<Shape> locals{{4, 5}, {4, 5}};
    Info sized;
    sized.sub_parameters(
        "qkv", sized.tuple({sized.tuple({sized.integer(4), sized.integer(2), sized.integer(2)}), sized.integer(5)}), 0);
    CHECK(rows(sized.made().slicing("qkv", locals), locals) ==
          std::vector<std::vector<Index>>{{0, 1, 4, 6}, {2, 3, 5, 7}});
    Info counted;
    counted.sub_parameters("qkv", counted.tuple({counted.integer(2), counted.integer(-1)}), 0);
    CHECK(rows(counted.made().slicing("qkv", locals), locals) ==
          std::vector<std::vector<Index>>{{0, 1, 4, 5}, {2, 3, 6, 7}});
}

TEST_CASE("slices that nothing can join are refused") {
    const auto error = [](const UniversalInfo& info, const std::vector<Shape>& locals) {
        return test::error_of([&] { info.slicing("w", locals); });
    };
    CHECK(error(UniversalInfo{}, {{2, 3}, {2, 3}}).find("no universal_checkpoint_info") != std::string::npos);
    CHECK(error(Info{}.made(), {{2, 3}, {2, 4}}) == "slices of shapes [2, 3] and [2, 4] cannot be joined along axis 0");
    CHECK(error(Info{}.list("parameter_to_average_patterns", {"w"}).made(), {{2}, {2}}).find("average") !=
          std::string::npos);
    CHECK(error(Info{}.list("tp_replicated_parameter_patterns", {"w"}).made(), {{2}, {3}}) ==
          "shapes [2] and [3] of what should be replicas");
    CHECK(error(Info{}.list("vocabulary_parameter_patterns", {"w"}).made(), {{2}, {3}}) ==
          "its padding is unknown: original_vocab_size is missing");
}

TEST_CASE("the names of Megatron-DeepSpeed's modules determine how they are split") {
    const std::string layer = "language_model.encoder.layers.0.";
    std::vector<std::pair<std::string, Shape>> names{{"language_model.embedding.word_embeddings.weight", {6, 4}},
                                                     {layer + "input_layernorm.weight", {4}},
                                                     {layer + "self_attention.dense.weight", {4, 2}},
                                                     {layer + "mlp.dense_h_to_4h.weight", {8, 4}},
                                                     {layer + "mlp.dense_4h_to_h.weight", {4, 4}}};
    const UniversalInfo info = UniversalInfo::of_megatron_names(names).value();
    const auto sliced = [&](std::size_t k) {
        const std::vector<Shape> locals{names[k].second, names[k].second};
        return info.slicing(names[k].first, locals);
    };
    CHECK(sliced(0).whole == Shape{12, 4});
    CHECK(sliced(1).replicated);
    CHECK(sliced(2).whole == Shape{4, 4});
    CHECK(sliced(2).cat_dim == 1);
    CHECK(sliced(3).halves);
    CHECK(sliced(4).whole == Shape{4, 8});
    names[3].second = {4, 4};
    CHECK_FALSE(
        UniversalInfo::of_megatron_names(names).value().slicing(names[3].first, std::vector<Shape>(2, {4, 4})).halves);
    names.push_back({"language_model.adapter.weight", {4, 4}});
    CHECK_FALSE(UniversalInfo::of_megatron_names(names).has_value());
}

}  // namespace tpx::formats::deepspeed
