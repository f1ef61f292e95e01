// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/target_step.hpp"

#include "formats/deepspeed/optimizer.hpp"
#include "formats/deepspeed/pipeline.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <set>

namespace tpx::formats::deepspeed {
namespace {

/// The layers of a pipeline, from its parameters' names; shared parameters form a layer before all others.
std::map<int, PipelineLayer> pipeline_layers(const WriterGrid& grid) {
    std::map<int, PipelineLayer> layers;
    Index tied = 0;
    for (const auto& [name, parameter] : grid.parameters) {
        const auto number = layer_of(name);
        const Index elements = volume(parameter.slicing.whole);
        if (is_tied(name)) tied += elements;
        if (!number) continue;
        layers[*number].weight += elements;
        layers[*number].content.insert(name.substr(name.find('.')) + to_string(parameter.slicing.whole));
    }
    if (tied > 0 && !layers.empty() && layers.begin()->first > 0) layers[layers.begin()->first - 1].weight = tied;
    return layers;
}

/// The stages according to stages=, first= and last=, which count transformer blocks. Other layers are on the stage of
/// the block before them.
std::map<int, int> given_stages(const Layout& layout, const std::map<int, PipelineLayer>& layers) {
    const std::vector<int> blocks = blocks_of(layers);
    const std::vector<int> stages = stages_of_layers(layout, static_cast<int>(blocks.size()));
    std::map<int, int> result;
    int stage = 0;
    for (const auto& [number, layer] : layers) {
        const auto block = std::ranges::find(blocks, number);
        if (block != blocks.end()) stage = stages[static_cast<std::size_t>(block - blocks.begin())];
        result[number] = stage;
    }
    return result;
}

constexpr Index usual_unit = 128;  // Megatron's default

Index padded_size(Index vocabulary, Index multiple) { return (vocabulary + multiple - 1) / multiple * multiple; }

/// Guesses the value of make_vocab_size_divisible_by, which times tp divides the padded size: the default if possible,
/// else the largest possible power of two.
Index guessed_unit(Index vocabulary, Index padded, int tp) {
    const auto could_be = [&](Index unit) { return padded_size(vocabulary, unit * tp) == padded; };
    if (could_be(usual_unit)) return usual_unit;
    for (Index unit = Index{1} << 20; unit > 1; unit /= 2)
        if (could_be(unit)) return unit;
    return 1;
}

/// The value of make_vocab_size_divisible_by in Megatron-DeepSpeed's args; 0 if there is none.
Index recorded_unit(const ModelFile& model) {
    constexpr std::string_view key = "make_vocab_size_divisible_by";
    const auto args = model.root().find("args");
    std::optional<torch::Value> unit;
    if (args && args->is(torch::Kind::dict)) unit = args->find(key);
    if (args && args->is(torch::Kind::object)) unit = args->attribute(key);
    const bool fits = unit && unit->is(torch::Kind::integer) && unit->as_int() > 0 && unit->as_int() <= Index{1} << 30;
    return fits ? unit->as_int() : 0;
}

/// The number of an expert in a parameter's name, and the parts of the name before and after it.
struct ExpertPlace {
    std::string before;
    std::string after;
    Index number = 0;
};

std::optional<ExpertPlace> expert_place(const std::string& name) {
    const auto at = name.find(expert_marker);
    if (at == name.npos) return std::nullopt;
    const auto begin = at + expert_marker.size();
    const auto end = name.find_first_not_of("0123456789", begin);
    if (end == begin || end == name.npos || end - begin > 7) return std::nullopt;
    return ExpertPlace{name.substr(0, begin), name.substr(end), std::stoll(name.substr(begin, end - begin))};
}

/// The degrees of expert parallelism that divide `experts` and `dp`: "ep=1, 2 or 4".
std::string fitting_degrees(Index experts, int dp) {
    std::vector<int> fitting;
    for (int ep = 1; ep <= dp; ++ep)
        if (experts % ep == 0 && dp % ep == 0) fitting.push_back(ep);
    const int last = fitting.back();
    fitting.pop_back();
    return fitting.empty() ? fmt::format("ep={}", last) : fmt::format("ep={} or {}", fmt::join(fitting, ", "), last);
}

}  // namespace

VocabularyRows new_vocabulary_rows(const OldRows& old, int tp) {
    const bool unit_fits = old.unit > 0 && padded_size(old.vocabulary, old.unit * old.tp) == old.padded;
    if (!unit_fits && old.padded % tp == 0) return {old.padded, 0};
    const Index unit = unit_fits ? old.unit : guessed_unit(old.vocabulary, old.padded, old.tp);
    return {padded_size(old.vocabulary, unit * tp), unit};
}

TargetStep::TargetStep(const WriterGrid& grid, const std::vector<StoredOptimizer>& origins, const Layout& layout,
                       Index unit)
    : layout_{layout} {
    if (layout_.pp == grid.pp && layout_.stages.empty() && !layout_.first && !layout_.last)
        for (const StoredOptimizer& origin : origins) {
            stages_.emplace_back();
            for (const StoredGroup& group : origin.groups)
                stages_.back().push_back({group.names, &group, group.expert_ranks});
        }
    else
        join_groups(grid, origins);
    find_rows(grid, unit);
    for (const auto& [name, parameter] : grid.parameters)
        in_context([&, &key = name] { return fmt::format("tensor '{}'", key); },
                   [&, &key = name, &old = parameter] { cut(grid, key, old); });
    for (auto& groups : stages_)
        for (TargetGroup& group : groups) spread_experts(group);
}

const TargetParameter* TargetStep::find(const std::string& name) const {
    const auto found = parameters_.find(name);
    return found == parameters_.end() ? nullptr : &found->second;
}

ParameterGroup TargetStep::local_group(const TargetGroup& group, int t) const {
    ParameterGroup result;
    for (const std::string& name : group.names) result.emplace_back(name, parameters_.at(name).locals[t]);
    return result;
}

int TargetStep::stage_of(const std::string& name) const {
    const auto layer = layer_of(name);
    const auto found = layer ? stage_of_layer_.find(*layer) : stage_of_layer_.end();
    return found == stage_of_layer_.end() ? 0 : found->second;
}

/// Assigns the layers of a pipeline to the new stages. Parameters of a group keep the order that they would have on a
/// single stage.
void TargetStep::join_groups(const WriterGrid& grid, const std::vector<StoredOptimizer>& origins) {
    stage_layers(grid, origins);
    stages_.resize(static_cast<std::size_t>(layout_.pp));
    for (std::size_t g = 0; g < origins[0].groups.size(); ++g) {
        for (auto& groups : stages_) groups.push_back({{}, &origins[0].groups[g], 1});
        std::set<std::string> met;
        for (const StoredOptimizer& origin : origins) {
            if (origin.groups.size() != origins[0].groups.size())
                throw failure("pipeline stages have {} and {} parameter groups", origins[0].groups.size(),
                              origin.groups.size());
            for (const std::string& name : origin.groups[g].names) {
                if (!met.insert(name).second) continue;
                stages_[stage_of(name)][g].names.push_back(name);
                if (is_tied(name) && layout_.pp > 1) stages_.back()[g].names.push_back(name);
            }
        }
    }
}

void TargetStep::stage_layers(const WriterGrid& grid, const std::vector<StoredOptimizer>& origins) {
    const std::map<int, PipelineLayer> layers = pipeline_layers(grid);
    if (layers.empty())
        throw Error{Exit::usage, "layout: pp can change only for the layers of a PipelineModule, which have numbers"};
    std::map<int, int> known;
    for (const auto& [number, layer] : layers) known[number] = 0;
    for (std::size_t stage = 0; stage < origins.size(); ++stage)
        for (const StoredGroup& group : origins[stage].groups)
            for (const std::string& name : group.names)
                if (const auto layer = layer_of(name)) known[*layer] = static_cast<int>(stage);
    if (!layout_.stages.empty() || layout_.first || layout_.last) {
        stage_of_layer_ = given_stages(layout_, layers);
        return;
    }
    const auto rule = find_stage_rule(layers, known, grid.pp);
    if (!rule)
        throw Error{Exit::usage,
                    "layout: the old stages match none of DeepSpeed's partition methods; use stages= to set the number "
                    "of transformer blocks of each new stage"};
    stage_of_layer_ = rule->stages(layers, layout_.pp);
    if (layout_.pp > 1)
        notes_.push_back(
            fmt::format("pipeline stages have {}, judging by the old stages; stages= overrides this", rule->name()));
    if (layout_.pp > 1 && std::ranges::any_of(grid.parameters, [](const auto& p) { return is_tied(p.first); }))
        notes_.emplace_back("modules that layers share (tied_modules) go to the first and the last stage");
}

void TargetStep::find_rows(const WriterGrid& grid, Index unit) {
    const auto size = grid.info.vocabulary_size();
    if (!size) return;
    for (const auto& [name, parameter] : grid.parameters) {
        if (!grid.info.is_vocabulary(name) || parameter.locals[0].empty()) continue;
        Index padded = 0;
        for (const Shape& local : parameter.locals) padded += local[0];
        if (grid.tp == layout_.tp && unit == 0) {
            rows_ = padded;
            return;
        }
        if (unit != 0) {
            rows_ = padded_size(*size, unit * layout_.tp);
            return;
        }
        const auto [rows, new_unit] =
            new_vocabulary_rows({*size, padded, grid.tp, recorded_unit(grid.models[0])}, layout_.tp);
        rows_ = rows;
        if (rows != *size || new_unit != 0)
            notes_.push_back(fmt::format(
                "the vocabulary of {} {}; --set make_vocab_size_divisible_by=N overrides this", *size,
                new_unit == 0 ? fmt::format("keeps its {} rows", rows)
                              : fmt::format("is padded to {} rows, a multiple of {} times tp", rows, new_unit)));
        return;
    }
}

void TargetStep::cut(const WriterGrid& grid, const std::string& name, const Parameter& old) {
    TargetParameter& made = parameters_[name];
    if (layout_.tp == grid.tp && !(grid.info.is_vocabulary(name) && rows_)) {
        made = {old.slicing, old.locals};
        if (old.slicing.replicated) std::ranges::fill(made.slicing.blocks, old.slicing.blocks[0]);
        return;
    }
    if (grid.tp == 1 && layout_.tp > 1 && !grid.info.knows_slices())
        throw Error{Exit::usage,
                    "layout: tp={}: the source does not record how tensors are split (universal_checkpoint_info has no "
                    "patterns of replicated and row-parallel tensors); use tp=1",
                    layout_.tp};
    std::tie(made.slicing, made.locals) = grid.info.cut(name, old.slicing.whole, layout_.tp, rows_.value_or(0));
}

/// Adds a note, unless another pipeline stage or group has added it.
void TargetStep::add_note(std::string note) {
    if (std::ranges::find(notes_, note) == notes_.end()) notes_.push_back(std::move(note));
}

/// Replaces the names of experts in `group` with those of one rank for the new number of expert ranks.
void TargetStep::spread_experts(TargetGroup& group) {
    const int old = group.expert_ranks;
    std::map<std::string, Index> experts;                      // number of experts of each layer on one old rank
    std::map<std::string, std::vector<std::string>> of_first;  // parameters of each layer's first expert
    for (const std::string& name : group.names) {
        const auto place = expert_place(name);
        if (!place) continue;
        experts[place->before] = std::max(experts[place->before], place->number + 1);
        if (place->number == 0) of_first[place->before].push_back(name);
    }
    if (experts.empty()) return;
    group.expert_ranks = kept_expert_ranks(layout_, old);
    if (group.expert_ranks == old) return;
    if (group.expert_ranks != layout_.ep || !layout_.ep_key.yes)
        add_note(
            fmt::format("experts are split across {} instead of {} data ranks, because dp={} is not a multiple of "
                        "{}: create the model's MoE layers with ep_size={}",
                        group.expert_ranks, old, layout_.dp, old, group.expert_ranks));
    std::vector<std::string> names;
    std::set<std::string> done;
    for (const std::string& name : group.names) {
        const auto place = expert_place(name);
        if (!place) throw failure("tensor '{}': is not an expert's, but in a group of experts", name);
        if (!done.insert(place->before).second) continue;
        add_experts(place->before, of_first[place->before], experts[place->before] * old, group.expert_ranks, names);
    }
    group.names = std::move(names);
}

/// Adds to `names` the parameters of one rank's experts of a layer, whose `all` experts are split across `ranks` ranks.
/// `of_first` are the parameters of the layer's first expert.
void TargetStep::add_experts(const std::string& layer, const std::vector<std::string>& of_first, Index all, int ranks,
                             std::vector<std::string>& names) {
    if (all % ranks != 0)
        throw Error{Exit::usage, "layout: {} experts of '{}' cannot be split across ep={}; use {}",
                    all,         layer.substr(0, layer.size() - 1),
                    ranks,       fitting_degrees(all, layout_.dp)};
    for (Index e = 0; e < all / ranks; ++e) {
        for (const std::string& first : of_first) {
            names.push_back(fmt::format("{}{}{}", layer, e, expert_place(first)->after));
            parameters_.emplace(names.back(), parameters_.at(first));
        }
    }
}

}  // namespace tpx::formats::deepspeed
