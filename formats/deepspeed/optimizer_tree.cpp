// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/optimizer_tree.hpp"

#include "formats/deepspeed/catalogue_builder.hpp"
#include "formats/deepspeed/step_draft.hpp"
#include "formats/encodings/torch/tensor_value.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>

namespace tpx::formats::deepspeed {
namespace {

using torch::Construction;
using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;

/// Creates the parts of an optimizer tree and records the storages of its tensors.
class Maker {
public:
    Maker(const StoredOptimizer& origin, Document& document)
        : origin_{origin}, document_{document}, keys_{&origin.archive}, entries_{unpartitioned_entries(origin)} {}

    void set(std::string_view key, Value value) { entries_.push_back({document_.string(key), value}); }

    void set_if_missing(std::string_view key, Value value) {
        const auto has = [&](const Entry& entry) { return entry.key.is(Kind::string) && entry.key.as_string() == key; };
        if (std::ranges::none_of(entries_, has)) set(key, value);
    }

    Value flat(std::size_t group, const std::string& state, DType dtype, Index length) {
        made_.flats.push_back({group, state, keys_.next(), dtype});
        return torch::make_tensor(document_, dtype, {length}, made_.flats.back().key);
    }

    /// The state of a torch optimizer for one group: scalars and flat vectors of `length`, without master weights.
    Value states(std::size_t number, const RankGroupPart& group, Index length) {
        std::vector<Entry> entries;
        for (const Scalar& scalar : group.like->scalars)
            entries.push_back(
                {document_.string(scalar.name), scalar_value(scalar, keys_.next(), made_.small, document_)});
        for (const auto& [state, dtype] : group.states)
            if (state != "fp32") entries.push_back({document_.string(state), flat(number, state, dtype, length)});
        return document_.dict(entries);
    }

    template <class Length>
    Value masters(const std::vector<RankGroupPart>& groups, Length length) {
        std::vector<Value> items;
        for (std::size_t g = 0; g < groups.size(); ++g) {
            const auto master = std::ranges::find(groups[g].states, "fp32", &FlatStates::value_type::first);
            if (master == groups[g].states.end()) throw failure("group {}: has no master weights", g);
            items.push_back(flat(g, master->first, master->second, length(groups[g])));
        }
        return document_.list(items);
    }

    template <class Length>
    Value numbered(const std::vector<RankGroupPart>& groups, Length length) {
        std::vector<Entry> entries;
        for (std::size_t g = 0; g < groups.size(); ++g)
            entries.push_back(
                {document_.integer(static_cast<std::int64_t>(g)), states(g, groups[g], length(groups[g]))});
        return document_.dict(entries);
    }

    /// The whole file. Entries other than the optimizer come from the old file or else from the model file.
    NewOptimizer finish(const ModelFile& model) {
        const Value optimizer = document_.dict(entries_);
        if (!origin_.root.is_none()) {
            made_.root = document_.with_key(origin_.root, "optimizer_state_dict", optimizer);
            return std::move(made_);
        }
        std::vector<Entry> root{{document_.string("optimizer_state_dict"), optimizer}};
        for (const std::string_view key : {"ds_config", "ds_version"})
            if (const auto value = model.root().find(key)) root.push_back({document_.string(key), *value});
        made_.root = document_.dict(root);
        return std::move(made_);
    }

    Document& document() { return document_; }

private:
    const StoredOptimizer& origin_;
    Document& document_;
    NewKeys keys_;
    std::vector<Entry> entries_;
    NewOptimizer made_;
};

Value slice_map(const RankGroupPart& group, Document& document) {
    const Value type = document.global("deepspeed.utils.tensor_fragment", "fragment_address");
    const Value map = torch::make_ordered_dict(document);
    const Interval held = group.layout.partition(group.partition);
    for (std::size_t p = 0; p < group.parameters.size(); ++p) {
        const auto& [name, shape] = group.parameters[p];
        const Index start = group.layout.starts[p];
        const Interval here = intersect({start, start + volume(shape)}, held);
        if (here.empty()) continue;
        const Entry address[]{
            {document.string("numel"), document.integer(here.size())},
            {document.string("start"), document.integer(here.begin - group.partition * group.layout.part)}};
        const Value fragment = document.object(type, document.tuple({}), Construction::allocate);
        document.set_state(fragment, document.dict(address));
        const Entry entry{document.string(name), fragment};
        document.insert(map, {&entry, 1});
    }
    return map;
}

/// A list with the result of `make` for each group.
template <class Make>
Value list_of(const std::vector<RankGroupPart>& groups, Document& document, Make make) {
    std::vector<Value> items;
    for (const RankGroupPart& group : groups) items.push_back(make(group));
    return document.list(items);
}

Value gap_list(const RankGroupPart& group, Document& document) {
    std::vector<Value> items;
    for (std::size_t p = 0; p < group.parameters.size(); ++p)
        items.push_back(document.integer(group.gaps.empty() ? 0 : group.gaps[p]));
    return document.list(items);
}

/// The padding that a rank records. BF16_Optimizer records all padding of a group on its last rank; other optimizers
/// record each rank's own.
Index padding(const RankGroupPart& group, bool on_last_rank) {
    const GroupLayout& layout = group.layout;
    if (!on_last_rank) return layout.part - layout.partition(group.partition).size();
    return group.partition == layout.partitions - 1 ? layout.part * layout.partitions - layout.total : 0;
}

Value stage_value(const StoredOptimizer& origin, int stage, Document& document) {
    const Value number = document.integer(stage);
    const auto old = origin.tree.find("zero_stage");
    if (old && old->is(Kind::integer)) return number;
    return document.object(document.global("deepspeed.runtime.zero.config", "ZeroStageEnum"),
                           document.tuple({&number, 1}));
}

/// The gradient clipping norm, which ZeRO 1 and 2 store and ZeRO 3 does not.
Value clipping(const ModelFile& model, Document& document) {
    const auto config = model.root().find("ds_config");
    const auto norm = config && config->is(Kind::dict) ? config->find("gradient_clipping") : std::nullopt;
    return norm && (norm->is(Kind::real) || norm->is(Kind::integer)) ? document.real(norm->as_real())
                                                                     : document.real(0);
}

Index padded(const RankGroupPart& group) { return group.layout.part; }
Index stripped(const RankGroupPart& group) { return group.layout.partition(group.partition).size(); }

/// A list of the groups' states without padding and settings, as elastic_checkpoint stores them.
Value elastic_states(Maker& maker, const std::vector<RankGroupPart>& groups, Document& document) {
    std::vector<Value> items;
    for (std::size_t g = 0; g < groups.size(); ++g) items.push_back(maker.states(g, groups[g], stripped(groups[g])));
    return document.list(items);
}

/// The state dict of a torch optimizer, with groups by number.
Value numbered_states(Maker& maker, const std::vector<RankGroupPart>& groups, Document& document) {
    std::vector<int> experts;
    std::vector<const StoredGroup*> like;
    for (const RankGroupPart& group : groups) {
        experts.push_back(group.expert_ranks);
        like.push_back(group.like);
    }
    const Entry base[]{{document.string("state"), maker.numbered(groups, padded)},
                       {document.string("param_groups"),
                        group_settings(like, experts, std::vector<std::size_t>(groups.size(), 1), document)}};
    return document.dict(base);
}

Value partition_counts(const StoredOptimizer& origin, const std::vector<RankGroupPart>& groups, Document& document) {
    const auto old = origin.tree.find("partition_count");
    const bool was3 = origin.tree.find("fp32_flat_groups").has_value();
    if (!was3 && old && old->is(Kind::integer) && !groups.empty()) return document.integer(groups[0].layout.partitions);
    return list_of(groups, document,
                   [&](const RankGroupPart& group) { return document.integer(group.layout.partitions); });
}

}  // namespace

std::vector<Entry> unpartitioned_entries(const StoredOptimizer& origin) {
    constexpr std::array partitioned{"base_optimizer_state",
                                     "single_partition_of_fp32_groups",
                                     "zero_stage",
                                     "group_paddings",
                                     "param_alignment_paddings",
                                     "partition_count",
                                     "param_slice_mappings",
                                     "fp32_flat_groups",
                                     "optimizer_state_dict",
                                     "param_groups",
                                     "ds_zero_partition_groups"};
    std::vector<Entry> kept;
    for (const Entry& entry : origin.tree.entries()) {
        const bool known =
            entry.key.is(Kind::string) && std::ranges::find(partitioned, entry.key.as_string()) != partitioned.end();
        if (!known) kept.push_back(entry);
    }
    return kept;
}

Value scalar_value(const Scalar& scalar, const std::string& key, std::map<std::string, std::string>& small,
                   Document& document) {
    if (const auto* number = std::get_if<std::int64_t>(&scalar.value)) return document.integer(*number);
    if (const auto* number = std::get_if<double>(&scalar.value)) return document.real(*number);
    const auto& element = std::get<OneElement>(scalar.value);
    small.emplace(key, element.bytes);
    return torch::make_tensor(document, element.dtype, {}, key);
}

Value group_settings(const std::vector<const StoredGroup*>& groups, const std::vector<int>& expert_ranks,
                     const std::vector<std::size_t>& numbers, Document& document) {
    std::vector<Value> items;
    std::int64_t next = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
        std::vector<Value> params;
        for (std::size_t k = 0; k < numbers[g]; ++k) params.push_back(document.integer(next++));
        Value settings = groups[g]->settings.is_none() ? document.dict() : groups[g]->settings;
        settings = document.with_key(settings, "params", document.list(params));
        if (expert_ranks[g] != groups[g]->expert_ranks && settings.find("name"))
            settings = document.with_key(settings, "name", document.string(fmt::format("ep_size_{}", expert_ranks[g])));
        items.push_back(settings);
    }
    return document.list(items);
}

NewOptimizer partitioned_optimizer(const StoredOptimizer& origin, const ModelFile& model,
                                   const std::vector<RankGroupPart>& groups, int stage, Document& document) {
    Maker maker{origin, document};
    const bool was3 = origin.tree.find("fp32_flat_groups").has_value();
    const bool was12 = !origin.root.is_none() && !was3;
    const auto had = [&](std::string_view key) { return origin.tree.find(key).has_value(); };
    maker.set("base_optimizer_state",
              origin.elastic ? elastic_states(maker, groups, document) : numbered_states(maker, groups, document));
    // BF16_Optimizer, which records no stage, stores master weights with padding.
    maker.set("single_partition_of_fp32_groups", maker.masters(groups, origin.staged ? stripped : padded));
    if (origin.staged) maker.set("zero_stage", stage_value(origin, stage, document));
    maker.set("group_paddings", list_of(groups, document, [&](const RankGroupPart& group) {
                  return document.integer(padding(group, !origin.staged));
              }));
    if (had("param_alignment_paddings") || was3)
        maker.set("param_alignment_paddings",
                  list_of(groups, document, [&](const RankGroupPart& group) { return gap_list(group, document); }));
    maker.set("partition_count", partition_counts(origin, groups, document));
    if (!was12 || had("param_slice_mappings"))
        maker.set("param_slice_mappings",
                  list_of(groups, document, [&](const RankGroupPart& group) { return slice_map(group, document); }));
    if (was3) maker.set_if_missing("clip_grad", clipping(model, document));
    if (was3) maker.set_if_missing("ds_version", document.string(model.version()));
    return maker.finish(model);
}

NewOptimizer subgrouped_optimizer(const StoredOptimizer& origin, const ModelFile& model,
                                  const std::vector<RankGroupPart>& groups, const std::vector<const StoredGroup*>& all,
                                  int dp, Document& document) {
    if (const auto old = origin.tree.find("ds_zero_partition_groups"); old && !old->is_none())
        throw failure("has ds_zero_partition_groups, which tpx cannot reshard");
    if (origin.elastic) throw failure("has no param_groups (elastic_checkpoint), which ZeRO 3 requires");
    Maker maker{origin, document};
    const auto length = [](const RankGroupPart& group) { return group.length; };
    std::vector<std::size_t> numbers;
    for (const StoredGroup* group : all)
        numbers.push_back(static_cast<std::size_t>(std::ranges::count(groups, group, &RankGroupPart::like)));
    maker.set("zero_stage", stage_value(origin, 3, document));
    maker.set("partition_count", document.integer(dp));
    const Entry base[]{
        {document.string("state"), maker.numbered(groups, length)},
        {document.string("param_groups"), group_settings(all, std::vector<int>(all.size(), 1), numbers, document)}};
    maker.set("optimizer_state_dict", document.dict(base));
    maker.set("fp32_flat_groups", maker.masters(groups, length));
    return maker.finish(model);
}

}  // namespace tpx::formats::deepspeed
