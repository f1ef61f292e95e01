// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/optimizer_tree.hpp"

#include "formats/deepspeed/builder.hpp"
#include "formats/deepspeed/step_draft.hpp"
#include "formats/torch/tensor_value.hpp"
#include "lib/core/error.hpp"

#include <map>

namespace tpx::formats::deepspeed {
namespace {

using torch::Construction;
using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;

/// Copies parts of the old tree with new flat vectors in the place of the old ones.
class Replacer {
public:
    Replacer(const torch::Archive& old, Document& document) : old_{old}, document_{document}, keys_{&old} {}

    Value flat(std::size_t group, std::string_view state, Value old, Index length) {
        const torch::StoredTensor tensor = plain_tensor(old_, old);
        flats_.push_back({group, std::string{state}, keys_.next(), tensor.dtype});
        return torch::make_tensor(document_, tensor.dtype, {length}, flats_.back().key);
    }

    /// The states of one group: flat vectors anew, the rest as it was.
    Value states(std::size_t group, Value old, Index length) {
        std::vector<Entry> entries;
        for (Entry entry : old.entries()) {
            const auto tensor = entry.value.is(Kind::object) ? old_.tensor(entry.value) : std::nullopt;
            if (tensor && !tensor->shape.empty()) entry.value = flat(group, entry.key.as_string(), entry.value, length);
            entries.push_back(entry);
        }
        return document_.dict(entries);
    }

    /// A torch optimizer's state, by the numbers of its groups.
    template <class Length>
    Value numbered(Value old, Length length) {
        std::vector<Entry> entries;
        for (Entry entry : old.at("state").entries()) {
            const auto group = static_cast<std::size_t>(entry.key.as_int());
            entry.value = states(group, entry.value, length(group));
            entries.push_back(entry);
        }
        return document_.with_key(old, "state", document_.dict(entries));
    }

    template <class Length>
    Value list(std::string_view state, Value old, Length length) {
        std::vector<Value> items;
        for (std::size_t g = 0; g < old.items().size(); ++g) items.push_back(flat(g, state, old.items()[g], length(g)));
        return document_.list(items);
    }

    std::vector<NewFlat> take() { return std::move(flats_); }

private:
    const torch::Archive& old_;
    Document& document_;
    NewKeys keys_;
    std::vector<NewFlat> flats_;
};

Value slice_maps(const PartitionView& view, Document& document) {
    const Value type = document.global("deepspeed.utils.tensor_fragment", "fragment_address");
    std::vector<Value> maps;
    for (std::size_t g = 0; g < view.groups.size(); ++g) {
        const Value map = torch::make_ordered_dict(document);
        const Interval held = view.layouts[g].partition(view.partition[g]);
        for (std::size_t p = 0; p < view.groups[g].size(); ++p) {
            const auto& [name, shape] = view.groups[g][p];
            const Index start = view.layouts[g].starts[p];
            const Interval here = intersect({start, start + volume(shape)}, held);
            if (here.empty()) continue;
            const Entry address[]{
                {document.string("numel"), document.integer(here.size())},
                {document.string("start"), document.integer(here.begin - view.partition[g] * view.layouts[g].part)}};
            const Value fragment = document.object(type, document.tuple({}), Construction::allocate);
            document.set_state(fragment, document.dict(address));
            const Entry entry{document.string(name), fragment};
            document.insert(map, {&entry, 1});
        }
        maps.push_back(map);
    }
    return document.list(maps);
}

/// The settings of each group of parameters, with the numbers of its sub-groups.
Value numbered_groups(Value base, const std::vector<std::size_t>& counts, Document& document) {
    std::vector<Value> groups;
    std::int64_t number = 0;
    for (std::size_t g = 0; g < counts.size(); ++g) {
        std::vector<Value> numbers;
        for (std::size_t k = 0; k < counts[g]; ++k) numbers.push_back(document.integer(number++));
        groups.push_back(document.with_key(base.at("param_groups").items()[g], "params", document.list(numbers)));
    }
    return document.list(groups);
}

Value paddings(const PartitionView& view, bool on_last_rank, Document& document) {
    std::vector<Value> items;
    for (std::size_t g = 0; g < view.groups.size(); ++g) {
        const GroupLayout& layout = view.layouts[g];
        const int k = view.partition[g];
        Index padding = layout.part - layout.partition(k).size();
        if (on_last_rank) padding = k == layout.partitions - 1 ? layout.part * layout.partitions - layout.total : 0;
        items.push_back(document.integer(padding));
    }
    return document.list(items);
}

Value partition_counts(Value old, const PartitionView& view, Document& document) {
    if (old.is(Kind::integer)) return document.integer(view.layouts[0].partitions);
    std::vector<Value> items;
    for (const GroupLayout& layout : view.layouts) items.push_back(document.integer(layout.partitions));
    return document.list(items);
}

Value stage_value(Value old, int stage, Document& document) {
    if (old.is(Kind::integer)) return document.integer(stage);
    const Value number = document.integer(stage);
    return document.object(document.global("deepspeed.runtime.zero.config", "ZeroStageEnum"),
                           document.tuple({&number, 1}));
}

}  // namespace

NewOptimizer repartition(const torch::Archive& old, const PartitionView& view, Document& document) {
    Value optimizer = old.root().at("optimizer_state_dict");
    Replacer replacer{old, document};
    const auto padded = [&](std::size_t g) { return view.layouts.at(g).part; };
    const auto stripped = [&](std::size_t g) { return view.layouts.at(g).partition(view.partition[g]).size(); };
    // BF16_Optimizer, which tells no stage, keeps master weights with their padding.
    const auto stage = optimizer.find("zero_stage");
    const Value masters = optimizer.at("single_partition_of_fp32_groups");
    const auto set = [&](std::string_view key, Value value) { optimizer = document.with_key(optimizer, key, value); };
    set("single_partition_of_fp32_groups",
        stage ? replacer.list("fp32", masters, stripped) : replacer.list("fp32", masters, padded));
    const Value base = optimizer.at("base_optimizer_state");
    if (base.is(Kind::list)) {
        std::vector<Value> items;
        for (std::size_t g = 0; g < base.items().size(); ++g)
            items.push_back(replacer.states(g, base.items()[g], stripped(g)));
        set("base_optimizer_state", document.list(items));
    } else if (!base.is_none()) {
        set("base_optimizer_state", replacer.numbered(base, padded));
    }
    set("group_paddings", paddings(view, !stage, document));
    set("partition_count", partition_counts(optimizer.at("partition_count"), view, document));
    if (const auto maps = optimizer.find("param_slice_mappings"); maps && !maps->is_none())
        set("param_slice_mappings", slice_maps(view, document));
    if (stage) set("zero_stage", stage_value(*stage, view.stage, document));
    return {document.with_key(old.root(), "optimizer_state_dict", optimizer), replacer.take()};
}

NewOptimizer repartition3(const torch::Archive& old, const std::vector<Index>& lengths, const Subgroups& cut, int dp,
                          Document& document) {
    Value optimizer = old.root().at("optimizer_state_dict");
    if (const auto groups = optimizer.find("ds_zero_partition_groups"); groups && !groups->is_none())
        throw failure("has ds_zero_partition_groups, which tpx does not make anew");
    Replacer replacer{old, document};
    std::map<std::int64_t, Value> states;
    const Value base = optimizer.at("optimizer_state_dict");
    for (const Entry& entry : base.at("state").entries()) states[entry.key.as_int()] = entry.value;
    const auto masters = optimizer.at("fp32_flat_groups").items();
    std::vector<Value> flats;
    std::vector<Entry> entries;
    for (std::size_t g = 0; g < lengths.size(); ++g) {
        flats.push_back(replacer.flat(g, "fp32", masters[cut.like[g]], lengths[g]));
        const auto known = states.find(static_cast<std::int64_t>(cut.like[g]));
        if (known == states.end()) continue;
        entries.push_back(
            {document.integer(static_cast<std::int64_t>(g)), replacer.states(g, known->second, lengths[g])});
    }
    const auto set = [&](std::string_view key, Value value) { optimizer = document.with_key(optimizer, key, value); };
    set("fp32_flat_groups", document.list(flats));
    const Value counted = document.with_key(base, "param_groups", numbered_groups(base, cut.counts, document));
    set("optimizer_state_dict", document.with_key(counted, "state", document.dict(entries)));
    set("partition_count", document.integer(dp));
    return {document.with_key(old.root(), "optimizer_state_dict", optimizer), replacer.take()};
}

}  // namespace tpx::formats::deepspeed
