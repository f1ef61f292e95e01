// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/param_groups.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace tpx::formats {
namespace {

using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;

/// Parameters with equal settings.
struct Group {
    AdamSettings settings;
    std::vector<Value> params;
};

/// Compares settings except initial_lr, which not all frameworks record.
bool alike(AdamSettings a, const AdamSettings& b) {
    a.initial_lr = b.initial_lr;
    return a == b;
}

std::vector<Entry> entries_of(Document& document, const AdamSettings& adam) {
    const std::array betas{document.real(adam.beta1), document.real(adam.beta2)};
    std::vector<Entry> entries{{document.string("lr"), document.real(adam.lr)},
                               {document.string("betas"), document.tuple(betas)},
                               {document.string("eps"), document.real(adam.eps)},
                               {document.string("weight_decay"), document.real(adam.weight_decay)}};
    for (const char* key : {"amsgrad", "maximize", "capturable", "differentiable"})
        entries.push_back({document.string(key), Value::boolean(false)});
    for (const char* key : {"foreach", "fused"}) entries.push_back({document.string(key), Value{}});
    entries.push_back({document.string("decoupled_weight_decay"), Value::boolean(true)});
    entries.push_back({document.string("initial_lr"), document.real(adam.initial_lr)});
    return entries;
}

Value with_params(Document& document, std::vector<Entry> entries, std::span<const Value> params) {
    std::erase_if(entries,
                  [](const Entry& entry) { return entry.key.is(Kind::string) && entry.key.as_string() == "params"; });
    entries.push_back({document.string("params"), document.list(params)});
    return document.dict(entries);
}

/// The groups of `known`, each with the parameters of those `groups` whose settings match. Unset if some match none.
std::optional<Value> named(Document& document, Value known, std::vector<Group> groups) {
    std::vector<Value> list;
    for (const Value group : known.items()) {
        if (!group.is(Kind::dict)) return std::nullopt;
        AdamSettings settings;
        for (const Entry& entry : group.entries())
            if (entry.key.is(Kind::string)) set(settings, entry.key.as_string(), entry.value, nullptr);
        std::vector<Value> params;
        for (Group& one : groups)
            if (alike(one.settings, settings)) params.insert(params.end(), one.params.begin(), one.params.end());
        std::erase_if(groups, [&](const Group& one) { return alike(one.settings, settings); });
        list.push_back(with_params(document, {group.entries().begin(), group.entries().end()}, params));
    }
    return groups.empty() ? std::optional{document.list(list)} : std::nullopt;
}

}  // namespace

std::optional<Value> named_param_groups(Document& document, const Content& content,
                                        std::span<const std::pair<std::uint32_t, std::string>> moments,
                                        std::optional<Value> known) {
    if (!content.adam || moments.empty()) return std::nullopt;
    std::vector<Group> groups;
    for (const auto& [t, parameter] : moments) {
        const Tensor& moment = content.tensors[t];
        const AdamSettings& settings = (*content.adam).of(moment.name, own_axes(*content.reading, content.tensors, t));
        auto group = std::ranges::find_if(groups, [&](const Group& one) { return one.settings == settings; });
        if (group == groups.end()) group = groups.insert(group, Group{settings, {}});
        (*group).params.push_back(document.string(parameter));
    }
    if (known && known->is(Kind::list)) return named(document, *known, std::move(groups));
    std::vector<Value> list;
    for (const Group& group : groups)
        list.push_back(with_params(document, entries_of(document, group.settings), group.params));
    return document.list(list);
}

}  // namespace tpx::formats
