// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/archive_draft.hpp"
#include "formats/megatron/muon_optimizers.hpp"
#include "formats/megatron/rank_optimizer.hpp"
#include "formats/megatron/rank_state.hpp"
#include "formats/megatron/stage_buffers.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include "formats/encodings/torch/without_keys.hpp"

namespace tpx::formats::megatron {
namespace {

using torch::Document;
using torch::Entry;
using torch::Value;

using Parameters = std::vector<const RankParameter*>;

const std::vector<RankPart>& state(const RankParameter& parameter, Role role) {
    const auto found = parameter.parts.find(role);
    if (found == parameter.parts.end()) throw failure("tensor '{}': it has no {}", parameter.name, role);
    return found->second;
}

Value state_tensor(ArchiveDraft& file, const RankParameter& parameter, Role role) {
    const auto& parts = state(parameter, role);
    return file.tensor(parameter.dtypes.at(role), parameter.shape, parts);
}

/// Writes one optimizer. Every rank has each group that any rank has, even if the group is empty.
class OptimizerWriter {
public:
    OptimizerWriter(ArchiveDraft& file, const std::vector<OptimizerState>& states, const RankParts& all, bool split,
                    bool distributed)
        : file_{file},
          document_{file.document()},
          states_{states},
          all_{all},
          split_{split},
          distributed_{distributed} {}

    Value write(const Parameters& parameters, bool experts) {
        for (double decay : decays(states_)) {
            if (all_.any(experts, decay != 0) || (!split_ && all_.any(true, decay != 0)))
                add_group(parameters, experts, decay);
        }
        return finish(experts);
    }

    /// Writes the only optimizer of `states`, one of a chain that contains Muon. `members` are those of its groups.
    Value write_chained(const std::vector<Parameters>& members) {
        for (std::size_t g = 0; g < members.size(); ++g) add_members(members[g], states_[0].groups[g]);
        return finish(false);
    }

private:
    Value finish(bool experts) {
        Value inner = document_.dict();
        if (!distributed_) inner = document_.with_key(inner, "state", document_.dict(state_));
        inner = document_.with_key(inner, "param_groups", document_.list(groups_));
        if (!all_.masters()) return inner;
        const Value template_of = states_[experts && states_.size() > 1 ? 1 : 0].outer;
        Value outer =
            torch::without_keys(document_, template_of, {"param_state_sharding_type", "param_groups", "state"});
        outer = document_.with_key(outer, "optimizer", inner);
        return distributed_ ? outer : document_.with_key(outer, "fp32_from_fp16_params", document_.list(masters_));
    }

    void add_group(const Parameters& parameters, bool experts, double decay) {
        Parameters members = parameters;
        std::erase_if(members, [&](const RankParameter* parameter) {
            return without_decay(parameter->name, parameter->shape.size()) != (decay == 0);
        });
        add_members(members, group_like(document_, states_, experts, decay));
    }

    void add_members(const Parameters& members, Value group) {
        std::vector<Value> ids;
        std::vector<Value> masters;
        for (const RankParameter* parameter : members) {
            ids.push_back(document_.integer(next_id_));
            if (!distributed_) add_state(*parameter, group, masters);
            ++next_id_;
        }
        // The distributed optimizer stores no state of single parameters here, so its groups keep the step.
        if (!distributed_ && is_torch_adam(group)) group = torch::without_keys(document_, group, {"step"});
        if (!distributed_) group = document_.with_key(group, "params", document_.list(ids));
        groups_.push_back(group);
        masters_.push_back(document_.list(masters));
    }

    /// torch's Adam counts steps per parameter, other optimizers count them per group.
    static bool is_torch_adam(Value group) { return group.find("amsgrad").has_value(); }

    void add_state(const RankParameter& parameter, Value group, std::vector<Value>& masters) {
        Value moments = document_.dict();
        if (is_torch_adam(group))
            moments = document_.with_key(moments, "step", file_.scalar(static_cast<float>(group.at("step").as_real())));
        const bool momentum = parameter.parts.contains(Role::momentum_buffer);
        for (const Role role :
             momentum ? std::vector{Role::momentum_buffer} : std::vector{Role::exp_avg, Role::exp_avg_sq})
            moments = document_.with_key(moments, tpx::name(role), state_tensor(file_, parameter, role));
        state_.push_back({document_.integer(next_id_), moments});
        const auto weight = parameter.dtypes.find(Role::weight);
        if (weight == parameter.dtypes.end()) throw failure("tensor '{}': it has no weight", parameter.name);
        if (is_half(weight->second)) masters.push_back(state_tensor(file_, parameter, Role::master));
    }

    ArchiveDraft& file_;
    Document& document_;
    const std::vector<OptimizerState>& states_;
    const RankParts& all_;
    bool split_;
    bool distributed_;
    std::int64_t next_id_ = 0;
    std::vector<Entry> state_;
    std::vector<Value> groups_;
    std::vector<Value> masters_;
};

/// The vectors of one buffer.
Value buffer_value(ArchiveDraft& file, const Buffer& parameters, const BufferLayout& places) {
    Document& document = file.document();
    Value vectors = document.dict();
    static constexpr std::array<std::pair<const char*, Role>, 3> keys{
        {{"param", Role::master}, {"exp_avg", Role::exp_avg}, {"exp_avg_sq", Role::exp_avg_sq}}};
    for (const auto& [key, role] : keys) {
        std::vector<RankPart> parts;
        const DType dtype = parameters[0]->dtypes.at(state(*parameters[0], role).empty() ? Role::weight : role);
        for (std::size_t k = 0; k < parameters.size(); ++k) {
            for (RankPart part : state(*parameters[k], role)) {
                part.begin += places.begin[k];
                parts.push_back(part);
            }
            if (parameters[k]->dtypes.at(role) != dtype)
                throw failure("tensor '{}': {} of {}", parameters[k]->name, role, name(dtype));
        }
        vectors = document.with_key(vectors, key, file.tensor(dtype, {places.size}, parts));
    }
    return document.with_key(vectors, "numel_unpadded", document.integer(places.size));
}

/// The chain of optimizers in `common`, which contains Muon.
Value muon_value(ArchiveDraft& file, const std::vector<RankParameter>& parameters, const RankParts& all, Value common) {
    const std::vector<OptimizerState> states = optimizers_of(common);
    const Parameters trained = trained_parameters(parameters, false, false);
    std::vector<TrainedParameter> named;
    for (const RankParameter* parameter : trained) named.push_back({parameter->name, parameter->shape.size()});
    const GroupMembers members = members_of_muon(states, named);
    std::vector<Value> written;
    for (std::size_t s = 0; s < states.size(); ++s) {
        std::vector<Parameters> groups(members[s].size());
        for (std::size_t g = 0; g < groups.size(); ++g)
            for (const std::size_t p : members[s][g]) groups[g].push_back(trained[p]);
        written.push_back(OptimizerWriter{file, {states[s]}, all, false, false}.write_chained(groups));
    }
    return file.document().list(written);
}

}  // namespace

bool has_state(const std::vector<RankParameter>& parameters) {
    return std::ranges::any_of(parameters, [](const RankParameter& parameter) {
        return parameter.parts.size() > 1 || !parameter.parts.contains(Role::weight);
    });
}

Value optimizer_value(ArchiveDraft& file, const std::vector<RankParameter>& parameters, const RankParts& all,
                      Value common, const Config& args, const Layout& layout) {
    const std::vector<OptimizerState> states = optimizers_of(common);
    if (states.empty()) throw failure("the source has optimizer state, but no param_groups");
    const bool distributed = holds(args, "use_distributed_optimizer");
    const bool split = two_optimizers(args, layout);
    if (has_muon(states)) {
        if (distributed) throw Error{Exit::usage, "Muon has no distributed optimizer in rank files; omit zero=1"};
        return muon_value(file, parameters, all, with_optimizers(file.document(), common, split, all.any(true, false)));
    }
    const auto write = [&](bool experts) {
        OptimizerWriter writer{file, states, all, split, distributed};
        return writer.write(trained_parameters(parameters, split, experts), experts);
    };
    if (!split) return write(false);
    std::vector<Value> both;
    for (const bool experts : {false, true}) both.push_back(write(experts));
    return file.document().list(both);
}

Value distributed_value(ArchiveDraft& file, const RankDirectory& directory,
                        const std::vector<RankParameter>& parameters, const Config& args, const Layout& layout) {
    Document& document = file.document();
    const bool split = two_optimizers(args, layout);
    const Coordinates at = coordinates(layout, directory.rank);
    const DType gradients = DType::f32;
    std::vector<Value> all;
    for (const bool experts : {false, true}) {
        if (experts && !split) break;
        if (split && !experts && (at.dp > 0 || at.cp > 0)) {
            all.emplace_back();  // another directory's rank leads the dense data-parallel group
            continue;
        }
        Value one = document.with_key(document.dict(), "buckets_coalesced", Value::boolean(true));
        std::vector<Entry> buffers;
        for (const Buffer& list : buffers_of(parameters, split, experts)) {
            const DType dtype = list[0]->dtypes.at(Role::weight);
            const bool as_f32 = !args.contains("accumulate_allreduce_grads_in_fp32") ||
                                holds(args, "accumulate_allreduce_grads_in_fp32");
            const std::array<Value, 2> key{document.global("torch", info(dtype).torch),
                                           document.global("torch", info(as_f32 ? gradients : dtype).torch)};
            const Value value = buffer_value(file, list, places_of(list, args, layout, directory.pp, experts));
            const std::array<Entry, 1> by_dtype{{{document.tuple(key), value}}};
            buffers.push_back({document.integer(static_cast<std::int64_t>(buffers.size())), document.dict(by_dtype)});
        }
        document.insert(one, buffers);
        all.push_back(one);
    }
    return split ? document.list(all) : all[0];
}

}  // namespace tpx::formats::megatron
