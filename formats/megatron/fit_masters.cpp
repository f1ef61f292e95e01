// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/fit_masters.hpp"

#include "formats/state/roles.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string_view>

namespace tpx::formats::megatron {
namespace {

constexpr std::string_view moment = "optimizer.state.exp_avg.";
constexpr std::string_view plain_masters = "optimizer.state.fp32_param.";
constexpr std::string_view distributed_masters = "optimizer.state.param.";

/// The name of the weight that `name` is the master of; empty for other tensors.
std::string_view weight_of_master(std::string_view name) {
    for (const std::string_view prefix : {plain_masters, distributed_masters})
        if (name.starts_with(prefix)) return name.substr(prefix.size());
    return {};
}

void remove_tensors(ExpressedState& expressed, const std::set<std::size_t>& numbers) {
    ExpressedState kept = expressed;
    kept.tensors.clear();
    kept.reading.meanings.clear();
    kept.reading.unknown.clear();
    for (std::size_t t = 0; t < expressed.tensors.size(); ++t) {
        if (numbers.contains(t)) continue;
        if (expressed.reading.meanings[t].kind == Meaning::Kind::unknown)
            kept.reading.unknown.push_back(static_cast<std::uint32_t>(kept.tensors.size()));
        kept.tensors.push_back(expressed.tensors[t]);
        kept.reading.meanings.push_back(expressed.reading.meanings[t]);
    }
    expressed = std::move(kept);
}

}  // namespace

void fit_masters(ExpressedState& expressed, bool distributed, std::optional<DType> dtype,
                 std::vector<std::string>& notes) {
    std::map<std::string, std::size_t, std::less<>> numbers;
    std::map<std::string_view, std::size_t> masters;  // by the names of their weights
    for (std::size_t t = 0; t < expressed.tensors.size(); ++t) {
        numbers.emplace(expressed.tensors[t].name, t);
        const std::string_view weight = weight_of_master(expressed.tensors[t].name);
        if (!weight.empty()) masters.emplace(weight, t);
    }
    std::set<std::size_t> superfluous;
    std::vector<std::size_t> without_master;
    for (const auto& [name, t] : numbers) {
        if (!name.starts_with(moment)) continue;
        const auto weight = numbers.find(std::string_view{name}.substr(moment.size()));
        if (weight == numbers.end()) continue;
        const DType stored = expressed.tensors[weight->second].dtype;
        const bool wanted = distributed || is_half(dtype.value_or(stored));
        const auto master = masters.find(weight->first);
        if (wanted && master == masters.end() && is_half(stored))
            throw Error{Exit::usage, "tensor '{}': it has moments, but no master weight", weight->first};
        if (wanted && master == masters.end()) without_master.push_back(weight->second);
        if (!wanted && master != masters.end() && stored == DType::f32) superfluous.insert(master->second);
    }
    for (const std::size_t weight : without_master) {
        const Tensor copy{
            fmt::format("{}{}", distributed ? distributed_masters : plain_masters, expressed.tensors[weight].name),
            DType::f32, expressed.tensors[weight].shape};
        expressed.copies.emplace(copy.name, expressed.tensors[weight].name);
        expressed.tensors.push_back(copy);
        expressed.reading.meanings.push_back(expressed.reading.meanings[weight]);
        expressed.reading.meanings.back().role = Role::master;
    }
    if (!superfluous.empty())
        notes.push_back(fmt::format("dropped {}, which a plain optimizer of fp32 weights does not use",
                                    counted(superfluous.size(), "master weight")));
    remove_tensors(expressed, superfluous);
}

}  // namespace tpx::formats::megatron
