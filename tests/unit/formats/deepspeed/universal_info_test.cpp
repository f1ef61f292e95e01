// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/universal_info.hpp"

#include "formats/deepspeed/resharded_info.hpp"

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
    Info& reason(std::string_view key, std::string_view pattern, std::string_view why) {
        Value reasons = document_.dict();
        set(reasons, pattern, document_.string(why));
        return set(root_, key, reasons);
    }
    /// An affine_map of `version` with a parameter "w.x" of shape [4, 3], of whose rows rank 0 has the first two;
    /// the others are those of rank 1 from `offset` on, multiplied by `scale`.
    Info& affine_map(std::int64_t version, std::int64_t offset, double scale = 1) {
        Value ranks = document_.dict();
        for (const int rank : {0, 1}) {
            Value piece = document_.dict();
            set(piece, "shape", integers({2, 3}));
            set(piece, "source", pair(rank * offset, integers({3, 1})));
            set(piece, "dest", pair(0, integers({3, 1})));
            if (scale != 1) set(piece, "scale", document_.real(scale));
            Value shard = document_.dict();
            set(shard, "shard_shape", integers({2, 3}));
            set(shard, "pieces", document_.list({&piece, 1}));
            const Entry entry{document_.integer(rank), shard};
            document_.insert(ranks, {&entry, 1});
        }
        Value of_parameter = document_.dict();
        set(of_parameter, "logical_shape", integers({4, 3}));
        set(of_parameter, "ranks", ranks);
        Value parameters = document_.dict();
        set(parameters, "^w\\.x$", of_parameter);
        Value map = document_.dict();
        set(map, "version", document_.integer(version));
        set(map, "params", parameters);
        return set(root_, "affine_map", map);
    }
    Value tuple(std::initializer_list<Value> items) { return document_.tuple({items.begin(), items.size()}); }
    Value integer(std::int64_t value) { return document_.integer(value); }
    UniversalInfo made() { return UniversalInfo{root_}; }

private:
    Value integers(std::initializer_list<std::int64_t> numbers) {
        std::vector<Value> items;
        for (const std::int64_t number : numbers) items.push_back(document_.integer(number));
        return document_.list(items);
    }
    Value pair(std::int64_t offset, Value strides) {
        const Value items[]{document_.integer(offset), strides};
        return document_.list(items);
    }
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

TEST_CASE("an affine map must describe the slices that the patterns describe") {
    const std::vector<Shape> locals{{2, 3}, {2, 3}};
    const auto error = [&](const UniversalInfo& info, const std::vector<Shape>& shapes) {
        return test::error_of([&] { info.slicing("w.x", shapes); });
    };
    const Slicing joined = Info{}.affine_map(1, 6).made().slicing("w.x", locals);
    CHECK(rows(joined, locals) == std::vector<std::vector<Index>>{{0, 1}, {2, 3}});
    CHECK_FALSE(joined.cat_dim);
    CHECK(error(Info{}.affine_map(1, 3).made(), locals) ==
          "cannot join the slices of 2 tensor ranks: its affine_map and the patterns beside it disagree about tensor "
          "rank 1");
    CHECK(error(Info{}.affine_map(1, 4).made(), locals).find("has blocks that are not boxes") != std::string::npos);
    CHECK(error(Info{}.affine_map(1, 9).made(), locals).find("has blocks that are not boxes") != std::string::npos);
    CHECK(error(Info{}.affine_map(1, 6, 0.5).made(), locals).find("scales its slices") != std::string::npos);
    CHECK(error(Info{}.affine_map(1, 6).made(), {{2, 3}, {3, 3}}).find("has shape [4, 3], but the patterns [5, 3]") !=
          std::string::npos);
    CHECK(error(Info{}.affine_map(1, 6).made(), {{4, 3}}).find("describes 2 tensor ranks") != std::string::npos);
    const auto other = [&] { return Info{}.affine_map(1, 6).list("tp_replicated_parameter_patterns", {"w"}).made(); };
    CHECK(error(other(), locals).find("has shape [4, 3], but the patterns [2, 3]") != std::string::npos);
    CHECK(test::error_of([] { Info{}.affine_map(2, 6).made(); }) ==
          "affine_map: has version 2, but only version 1 is supported");
    CHECK(Info{}.affine_map(1, 6).made().slicing("other", locals).cat_dim == 0);
}

TEST_CASE("slices that DeepSpeed declares impossible to join are refused") {
    const auto info = Info{}.reason("autotp_unsupported_parameter_patterns", "^w$", "packed").made();
    CHECK(test::error_of([&] {
              info.slicing("w", std::vector<Shape>{{2}, {2}});
          }) == "DeepSpeed cannot join its slices (packed)");
    CHECK(info.slicing("w", std::vector<Shape>{{4}}).whole == Shape{4});
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

TEST_CASE("the info of fewer tensor ranks has joined widths, and no map of the old ranks") {
    Document document;
    const auto number = [&](std::int64_t value) { return document.integer(value); };
    const Value widths[]{number(3), number(2)};
    const Value of_ranks = document.list(widths), of_pattern = document.list({&of_ranks, 1});
    const Entry by_pattern[]{{document.string("^w$"), of_pattern}};
    const Entry entries[]{{document.string("affine_map"), document.dict()},
                          {document.string("vocabulary_parameter_patterns"), document.list()},
                          {document.string("sub_param_shard_widths"), document.dict(by_pattern)}};
    const Value info = document.dict(entries);
    const Value one = info_for_ranks(document, info, 1);
    CHECK(!one.find("affine_map"));
    CHECK(!one.find("vocabulary_parameter_patterns"));
    const Value joined = one.at("sub_param_shard_widths").at("^w$");
    REQUIRE(joined.items().size() == 1);
    REQUIRE(joined.items()[0].items().size() == 1);
    CHECK(joined.items()[0].items()[0].as_int() == 5);
    CHECK(info_for_ranks(document, info, 2).at("sub_param_shard_widths").at("^w$").items()[0].items().size() == 2);
}

}  // namespace tpx::formats::deepspeed
