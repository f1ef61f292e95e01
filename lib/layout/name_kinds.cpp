// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/name_kinds.hpp"

#include "lib/layout/name_parts.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

namespace tpx {
namespace {

/// A tensor name whose layer and expert numbers are replaced by placeholders.
struct Parsed {
    std::string text;
    std::string stack;  ///< before the layer's number: "model.layers"; empty: there is none
    std::string layer;  ///< the number
    bool expert = false;
};

Parsed parse(const std::string& name) {
    std::vector<std::string> words = name_parts(name);
    Parsed parsed;
    for (std::size_t at = 1; at < words.size(); ++at) {
        if (!is_number(words[at])) continue;
        const bool of_expert = words[at - 1].find("expert") != std::string::npos;
        if (of_expert && !parsed.expert) {
            parsed.expert = true;
            words[at] = "{e}";
        } else if (!of_expert && parsed.stack.empty()) {
            parsed.stack = fmt::format("{}", fmt::join(words.begin(), words.begin() + at, "."));
            parsed.layer = std::exchange(words[at], "{l}");
        }
    }
    parsed.text = fmt::format("{}", fmt::join(words, "."));
    return parsed;
}

/// The stack of numbered layers with the most tensors. Towers beside a language model are chosen only if there is no
/// other stack.
std::string main_stack(const std::vector<Parsed>& names) {
    constexpr std::array<std::string_view, 4> towers{"vision", "visual", "audio", "image"};
    std::map<std::string, std::size_t> counts;
    for (const Parsed& name : names)
        if (!name.stack.empty()) ++counts[name.stack];
    const auto rank = [&](const auto& entry) {
        const bool tower = std::ranges::any_of(
            towers, [&](std::string_view word) { return entry.first.find(word) != std::string::npos; });
        return std::pair{!tower, entry.second};
    };
    const auto most = std::ranges::max_element(counts, {}, rank);
    return most == counts.end() ? "" : most->first;
}

}  // namespace

std::string NameKind::leaf() const { return name_parts(text).back(); }

std::string NameKind::module() const {
    std::vector<std::string> words = name_parts(text);
    if (words.back() == "weight" || words.back() == "bias") words.pop_back();
    while (words.size() > 1 && words.back().starts_with('{')) words.pop_back();
    return words.empty() ? text : words.back();
}

std::vector<NameKind> name_kinds(std::span<const Tensor> tensors, std::vector<std::string>& others) {
    std::vector<Parsed> names;
    for (const Tensor& tensor : tensors) names.push_back(parse(tensor.name));
    const std::string stack = main_stack(names);
    std::vector<NameKind> kinds;
    std::map<std::string, std::size_t> number;
    std::map<std::string, std::set<std::string>> layers;
    std::set<std::string> all_layers;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Parsed& name = names[t];
        if (!name.stack.empty() && name.stack != stack) {
            const std::string glob = name.stack + ".*";
            if (std::ranges::find(others, glob) == others.end()) others.push_back(glob);
            continue;
        }
        const auto [found, is_new] = number.try_emplace(name.text, kinds.size());
        if (is_new)
            kinds.push_back({.text = name.text,
                             .layer = name.stack.empty() ? "" : stack + ".{l}",
                             .expert = name.expert,
                             .shape = tensors[t].shape,
                             .dtype = tensors[t].dtype});
        NameKind& kind = kinds[found->second];
        kind.same_shapes = kind.same_shapes && kind.shape == tensors[t].shape;
        ++kind.count;
        layers[name.text].insert(name.layer);
        if (!name.layer.empty()) all_layers.insert(name.layer);
    }
    for (NameKind& kind : kinds)
        kind.in_all_layers = kind.layer.empty() || layers[kind.text].size() == all_layers.size();
    return kinds;
}

}  // namespace tpx
