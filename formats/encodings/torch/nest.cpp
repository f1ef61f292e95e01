// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/nest.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <charconv>

namespace tpx::torch {
namespace {

bool is_numeric(const Nest::Key& key) { return key.index || key.number; }

std::string place_of(const Nest::Key& key) { return (is_numeric(key) ? "#" : "=") + key.text; }

std::int64_t number(const std::string& text) {
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

}  // namespace

void Nest::put(std::span<const Key> path, Value value) {
    constexpr std::size_t deepest = 64;
    if (path.empty() || path.size() > deepest) throw failure("a path of {} keys", path.size());
    const auto [place, is_new] = places_.try_emplace(place_of(path[0]), children_.size());
    if (is_new) children_.push_back({path[0], {}, nullptr});
    Child& child = children_[place->second];
    if (path.size() == 1) {
        if (!is_new) throw failure("two values at '{}'", path[0].text);
        child.value = value;
        return;
    }
    if (!is_new && !child.nest) throw failure("a value and a dict at '{}'", path[0].text);
    if (!child.nest) child.nest = std::make_unique<Nest>();
    child.nest->put(path.subspan(1), value);
}

Value Nest::build(Document& document) const {
    std::vector<Value> values;
    for (const Child& child : children_) values.push_back(child.nest ? child.nest->build(document) : child.value);
    const bool indices = !children_.empty() && std::ranges::all_of(children_, [&](const Child& child) {
        return child.key.index && number(child.key.text) < static_cast<std::int64_t>(children_.size());
    });
    if (indices) {
        std::vector<Value> list(values.size());
        for (std::size_t i = 0; i < values.size(); ++i)
            list[static_cast<std::size_t>(number(children_[i].key.text))] = values[i];
        return document.list(list);
    }
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const Key& key = children_[i].key;
        entries.push_back(
            {is_numeric(key) ? document.integer(number(key.text)) : document.string(key.text), values[i]});
    }
    return document.dict(entries);
}

}  // namespace tpx::torch
