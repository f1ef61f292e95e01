// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/plain_optimizer.hpp"

#include "formats/megatron/rank_optimizer.hpp"
#include "formats/megatron/rank_state.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace tpx::formats::megatron {
namespace {

using torch::Kind;
using torch::Value;

/// Reads the state of one optimizer in model_optim_rng.pt.
class PlainReader {
public:
    /// If `by_experts`, each group contains either parameters of experts or others.
    PlainReader(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file, Value optimizer,
                bool by_experts)
        : directory_{directory}, archive_{archive}, file_{file}, by_experts_{by_experts} {
        const auto inner = optimizer.find("optimizer");
        state_of_ = inner.value_or(optimizer);
        masters_ = optimizer.find("fp32_from_fp16_params");
    }

    void read(const std::vector<std::size_t>& parameters) {
        const auto state = state_of_.find("state");
        if (!state) return;  // the distributed optimizer stores its state elsewhere
        for (const auto& [key, value] : state->entries()) states_.emplace_back(key.as_int(), value);
        std::ranges::sort(states_, {}, &std::pair<std::int64_t, Value>::first);
        const auto groups = state_of_.at("param_groups").items();
        std::size_t read = 0;
        for (std::size_t g = 0; g < groups.size(); ++g) read += read_group(groups[g], g, groups.size(), parameters);
        if (read != parameters.size())
            throw failure("the optimizer has {} parameters, the model {}", read, parameters.size());
    }

private:
    /// The parameters of a group, which its weight decay determines.
    std::vector<std::size_t> members(Value group, std::size_t groups, const std::vector<std::size_t>& all) const {
        if (groups > 2) throw failure("the optimizer has {} groups of parameters; at most 2 can be identified", groups);
        const double decay = group.at("wd_mult").as_real();
        if (decay != 0 && decay != 1) throw failure("a group of parameters has wd_mult = {}", decay);
        std::vector<std::size_t> found;
        for (std::size_t k : all) {
            const RankTensor& tensor = directory_.tensors[k];
            if (by_experts_ && is_of_experts(tensor.name) != is_group_of_experts(group)) continue;
            if (without_decay(tensor.name, tensor.shape.size()) == (decay == 0)) found.push_back(k);
        }
        return found;
    }

    std::size_t read_group(Value group, std::size_t number, std::size_t groups, const std::vector<std::size_t>& all) {
        const auto ids = group.at("params").items();
        const std::vector<std::size_t> mine = members(group, groups, all);
        if (ids.size() != mine.size())
            throw failure("group {} of the optimizer has {} parameters; the model has {} with its weight decay", number,
                          ids.size(), mine.size());
        std::span<const Value> masters;
        if (masters_ && masters_->is(Kind::list) && number < masters_->items().size())
            masters = masters_->items()[number].items();
        std::size_t used = 0;
        for (std::size_t j = 0; j < mine.size(); ++j) {
            const bool half = masters_ && is_half(directory_.tensors[mine[j]].dtype);
            if (half && used == masters.size()) throw failure("group {} has {} master weights", number, used);
            in_context([&] { return fmt::format("tensor '{}'", directory_.tensors[mine[j]].name); },
                       [&] { read_parameter(mine[j], ids[j].as_int(), half ? masters[used] : Value{}); });
            used += half;
        }
        if (used != masters.size())
            throw failure("group {} has {} master weights for {} parameters", number, masters.size(), used);
        return mine.size();
    }

    void read_parameter(std::size_t parameter, std::int64_t id, Value master) {
        if (!master.is_none()) add(parameter, Role::master, tensor_in(archive_, master, "its master weight"));
        const auto state = std::ranges::lower_bound(states_, id, {}, &std::pair<std::int64_t, Value>::first);
        if (state == states_.end() || state->first != id) throw failure("the optimizer has no state {}", id);
        for (const auto& [key, value] : state->second.entries()) {
            const std::string_view name = key.as_string();
            if (name == "step") continue;
            const auto role = role_by_name(name);
            if (role != Role::exp_avg && role != Role::exp_avg_sq && role != Role::momentum_buffer)
                throw failure("unknown optimizer state '{}'", name);
            add(parameter, *role, tensor_in(archive_, value, "its moment"));
        }
    }

    void add(std::size_t parameter, Role role, const torch::StoredTensor& stored) {
        RankTensor tensor = directory_.tensors[parameter];
        if (stored.shape != tensor.shape)
            throw failure("its {} has shape {}, the parameter {}", role, to_string(stored.shape),
                          to_string(tensor.shape));
        tensor.role = role;
        tensor.dtype = stored.dtype;
        tensor.strides = stored.strides;
        tensor.file = file_;
        tensor.offset = stored.offset;
        directory_.tensors.push_back(std::move(tensor));
    }

    RankDirectory& directory_;
    const torch::Archive& archive_;
    std::uint32_t file_;
    bool by_experts_;
    Value state_of_;
    std::optional<Value> masters_;
    std::vector<std::pair<std::int64_t, Value>> states_;
};

}  // namespace

bool is_of_experts(std::string_view name) { return name.find("mlp.experts.") != std::string_view::npos; }

torch::StoredTensor tensor_in(const torch::Archive& archive, Value value, const char* what) {
    const auto found = archive.tensor(value);
    if (!found) throw failure("{} is {}, not a tensor", what, value.describe());
    if (found->compressed || found->conjugated || found->negated)
        throw failure("{}: its elements cannot be moved as they are", what);
    return *found;
}

void read_plain_optimizer(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file,
                          torch::Value optimizer, const std::vector<std::size_t>& parameters, bool by_experts) {
    PlainReader{directory, archive, file, optimizer, by_experts}.read(parameters);
}

}  // namespace tpx::formats::megatron
