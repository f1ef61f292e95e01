// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_state.hpp"

#include "formats/dcp/kept.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace tpx::formats::megatron {
namespace {

using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;

/// The entries of dict `value` for which `keep` holds.
template <class Keep>
Value filtered(Document& document, Value value, Keep&& keep) {
    std::vector<Entry> kept;
    for (const Entry& entry : value.entries()) {
        if (!entry.key.is(Kind::string) || keep(entry.key.as_string())) kept.push_back(entry);
    }
    return document.dict(kept);
}

Value group_without_parameters(Document& document, Value group) {
    return group.is(Kind::dict) ? filtered(document, group, [](std::string_view key) { return key != "params"; })
                                : group;
}

/// {'param_groups': ...} of a torch optimizer's state.
Value inner_state(Document& document, Value state) {
    const auto groups = state.find("param_groups");
    if (!groups) return state;
    std::vector<Value> list;
    for (const Value group : groups->items()) list.push_back(group_without_parameters(document, group));
    const Value without = filtered(document, state, [](std::string_view key) { return key != "state"; });
    return document.with_key(without, "param_groups", document.list(list));
}

Value optimizer_state(Document& document, Value optimizer) {
    if (!optimizer.is(Kind::dict)) return optimizer;
    const Value without =
        filtered(document, optimizer, [](std::string_view key) { return key != "fp32_from_fp16_params"; });
    if (const auto inner = without.find("optimizer"); inner && inner->is(Kind::dict))
        return document.with_key(without, "optimizer", inner_state(document, *inner));
    return document.with_key(document.dict(), "optimizer", inner_state(document, without));
}

/// One optimizer as it is, two as torch_dist has them: under 0 and 1.
Value optimizers_state(Document& document, Value optimizers) {
    if (!optimizers.is(Kind::list)) return optimizer_state(document, optimizers);
    std::vector<Entry> numbered;
    for (const Value one : optimizers.items())
        numbered.push_back(
            {document.integer(static_cast<std::int64_t>(numbered.size())), optimizer_state(document, one)});
    return document.dict(numbered);
}

bool is_common(std::string_view key) {
    static constexpr std::array<std::string_view, 6> own{"rng_state",       "random_rng_state", "np_rng_state",
                                                         "torch_rng_state", "cuda_rng_state",   "rng_tracker_states"};
    return !key.starts_with("model") && std::ranges::find(own, key) == own.end();
}

}  // namespace

std::shared_ptr<const Value> common_of_ranks(const torch::Archive& archive) {
    Document document;
    Value common = filtered(document, archive.root(), is_common);
    if (const auto optimizer = common.find("optimizer"); optimizer && !optimizer->is_none())
        common = document.with_key(common, "optimizer", optimizers_state(document, *optimizer));
    return kept_copy(common);
}

}  // namespace tpx::formats::megatron
