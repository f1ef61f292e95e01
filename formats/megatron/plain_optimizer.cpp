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
    PlainReader(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file, Value optimizer)
        : directory_{directory}, archive_{archive}, file_{file} {
        const auto inner = optimizer.find("optimizer");
        state_of_ = inner.value_or(optimizer);
        masters_ = optimizer.find("fp32_from_fp16_params");
    }

    void read(const std::vector<std::size_t>& parameters) {
        if (!state_of_.find("state")) return;  // the distributed optimizer stores its state elsewhere
        const auto groups = state_of_.at("param_groups").items();
        if (groups.size() > 2)
            throw failure("the optimizer has {} groups of parameters; at most 2 can be identified", groups.size());
        std::vector<std::vector<std::size_t>> members;
        std::size_t count = 0;
        for (const Value group : groups) {
            members.push_back(with_decay_of(group, parameters));
            count += members.back().size();
        }
        read_groups(members);
        if (count != parameters.size())
            throw failure("the optimizer has {} parameters, the model {}", count, parameters.size());
    }

    void read_groups(const std::vector<std::vector<std::size_t>>& members) {
        const auto state = state_of_.find("state");
        if (!state) return;
        for (const auto& [key, value] : state->entries()) states_.emplace_back(key.as_int(), value);
        std::ranges::sort(states_, {}, &std::pair<std::int64_t, Value>::first);
        const auto groups = state_of_.at("param_groups").items();
        for (std::size_t g = 0; g < groups.size(); ++g) read_group(groups[g], g, members[g]);
    }

private:
    /// Those of `parameters` that have the weight decay of `group`.
    std::vector<std::size_t> with_decay_of(Value group, const std::vector<std::size_t>& parameters) const {
        const bool decays = decay_of(group) != 0;
        std::vector<std::size_t> found;
        for (std::size_t k : parameters) {
            const RankTensor& tensor = directory_.tensors[k];
            if (without_decay(tensor.name, tensor.shape.size()) != decays) found.push_back(k);
        }
        return found;
    }

    void read_group(Value group, std::size_t number, const std::vector<std::size_t>& mine) {
        const auto ids = group.at("params").items();
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
                          torch::Value optimizer, const std::vector<std::size_t>& parameters) {
    PlainReader{directory, archive, file, optimizer}.read(parameters);
}

void read_optimizer_groups(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file,
                           torch::Value optimizer, const std::vector<std::vector<std::size_t>>& groups) {
    PlainReader{directory, archive, file, optimizer}.read_groups(groups);
}

}  // namespace tpx::formats::megatron
