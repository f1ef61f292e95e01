// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/reading.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/adapter_family.hpp"
#include "lib/layout/layer_numbers.hpp"
#include "lib/layout/matching.hpp"
#include "lib/layout/parts.hpp"
#include "lib/layout/virtual_nodes.hpp"
#include "lib/layout/widen_family.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx {
namespace {

/// Computes sizes that the configuration lacks from shapes: an axis with one unknown factor gives its size.
void solve(Reading& reading, std::span<const Tensor> tensors) {
    for (bool found = true; found;) {
        found = false;
        for (std::size_t t = 0; t < tensors.size(); ++t) {
            const Meaning& meaning = reading.meanings[t];
            if (meaning.kind != Meaning::Kind::parameter || meaning.rule->expression.parts.size() > 1 ||
                meaning.role == Role::step)
                continue;
            std::vector<Axis> axes = shape_axes(*reading.family, meaning);
            std::erase_if(axes, [](const Axis& axis) { return axis[0].letter == 'l'; });
            const int lead = tensors[t].shape.size() - static_cast<int>(axes.size());
            if (lead < 0) continue;
            for (std::size_t a = 0; a < axes.size(); ++a) {
                Index known = 1;
                char unknown = 0;
                int count = 0;
                for (Token token : axes[a]) {
                    if (reading.family->varies(token.letter)) {
                        count = 2;  // one tensor does not give the size in others
                    } else if (const auto size = reading.dims[token.letter]) {
                        if (__builtin_mul_overflow(known, *size, &known)) known = 0;  // no axis is that long
                    } else {
                        unknown = token.letter, ++count;
                    }
                }
                const Index size = tensors[t].shape[lead + static_cast<int>(a)];
                if (count == 1 && !axes[a][0].padded && known > 0 && size % known == 0) {
                    reading.dims.set(unknown, size / known);
                    found = true;
                }
            }
        }
    }
}

/// Whether the shape of a stored tensor gives the size of `letter`: all other factors of its axis are known.
bool follows_from_shape(const Reading& reading, const Meaning& meaning, char letter, const Dims& sizes) {
    return std::ranges::any_of(shape_axes(*reading.family, meaning), [&](const Axis& axis) {
        return std::ranges::count(axis, letter, &Token::letter) > 0 &&
               std::ranges::all_of(axis, [&](Token t) { return t.letter == letter || sizes[t.letter]; });
    });
}

bool all_sizes_known(const Reading& reading) {
    std::map<int, Dims> by_layer;
    const auto known = [&](const Meaning& meaning, char letter) {
        if (letter == 'l' || reading.dims[letter]) return true;
        if (!reading.family->varies(letter)) return false;
        const int layer = meaning.indices.layer.value_or(0);
        const auto [sizes, is_new] = by_layer.try_emplace(layer);
        if (is_new) sizes->second = sizes_in_layer(reading, layer);
        return sizes->second[letter] || follows_from_shape(reading, meaning, letter, sizes->second);
    };
    for (const Meaning& meaning : reading.meanings) {
        if (meaning.kind != Meaning::Kind::parameter) continue;
        for (const std::string& part : meaning.rule->expression.parts) {
            for (const Axis& axis : reading.family->tensor(part).axes) {
                if (!std::ranges::all_of(axis, [&](Token token) { return known(meaning, token.letter); })) return false;
            }
        }
    }
    return true;
}

bool has_other_axes(const Rule* a, const Rule* b) {
    return a->expression.parts != b->expression.parts || a->expression.axes != b->expression.axes ||
           a->expression.shape != b->expression.shape;
}

using RulesByName = std::map<std::string_view, std::vector<const Rule*>>;

/// The rules of a dialect that differ in their axes but not in their names.
RulesByName rules_of_same_name(const Dialect& dialect) {
    RulesByName same;
    for (const Rule& rule : dialect.rules) same[rule.name.text()].push_back(&rule);
    std::erase_if(same, [](const auto& entry) {
        const auto& rules = entry.second;
        return std::ranges::none_of(rules, [&](const Rule* rule) { return has_other_axes(rule, rules[0]); });
    });
    return same;
}

/// The rules with the name of a tensor that its shape fits, if there are several rules with that name.
std::vector<const Rule*> rules_that_fit(const Reading& reading, const Tensor& tensor, const Meaning& meaning,
                                        const RulesByName& same) {
    std::vector<const Rule*> fit;
    if (meaning.kind != Meaning::Kind::parameter || meaning.role == Role::step) return fit;
    const auto rules = same.find(meaning.rule->name.text());
    if (rules == same.end()) return fit;
    for (const Rule* rule : rules->second) {
        Meaning other = meaning;
        other.rule = rule;
        if (fits_shape(reading, tensor, other)) fit.push_back(rule);
    }
    return fit;
}

/// Whether a tag of `rule`, or a part of it ("a+b"), names one of the tensors that are `present`.
bool names_present(const Rule& rule, const std::set<std::string, std::less<>>& present) {
    return std::ranges::any_of(rule.tags, [&](std::string_view tag) {
        const std::size_t plus = tag.find('+');
        return present.contains(tag.substr(0, plus)) ||
               (plus != std::string_view::npos && present.contains(tag.substr(plus + 1)));
    });
}

/// The canonical tensors that are stored.
std::set<std::string, std::less<>> present_tensors(const Reading& reading) {
    std::set<std::string, std::less<>> present;
    for (const Meaning& meaning : reading.meanings)
        if (meaning.kind == Meaning::Kind::parameter)
            present.insert(meaning.rule->expression.parts.begin(), meaning.rule->expression.parts.end());
    return present;
}

/// If several rules have the name of a tensor, chooses the first one that its shape fits. If its shape fits several, as
/// for square matrices, prefers the one with the tags of the rules that are the only ones to fit other tensors, because
/// a checkpoint is stored in one way. A rule with a tag that names a stored tensor stays.
void choose_by_shape(Reading& reading, std::span<const Tensor> tensors) {
    const RulesByName same = rules_of_same_name(*reading.dialect);
    if (same.empty()) return;
    std::set<std::vector<std::string>> tags;
    std::vector<std::pair<std::size_t, std::vector<const Rule*>>> unsettled;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        Meaning& meaning = reading.meanings[t];
        std::vector<const Rule*> fit = rules_that_fit(reading, tensors[t], meaning, same);
        if (fit.empty()) continue;
        if (std::ranges::find(fit, meaning.rule) == fit.end()) meaning.rule = fit[0];
        if (fit.size() == 1)
            tags.insert(fit[0]->tags);
        else
            unsettled.emplace_back(t, std::move(fit));
    }
    if (tags.size() != 1) return;
    const auto present = present_tensors(reading);
    for (const auto& [t, fit] : unsettled) {
        if (names_present(*reading.meanings[t].rule, present)) continue;
        const auto alike = std::ranges::find(fit, *tags.begin(), &Rule::tags);
        if (alike != fit.end()) reading.meanings[t].rule = *alike;
    }
}

bool knows_any(const Family& family, std::span<const Tensor> tensors) {
    return std::ranges::any_of(family.dialects, [&](const Dialect& dialect) {
        return match_dialect(family, dialect, tensors).parameters > 0;
    });
}

/// The family of adapters for `tensors`, which `owner` keeps alive. Empty if they are not those of an adapter, or if
/// they include tensors of its base: a model that is stored together with its adapter counts as a model.
FamilyMatch adapter_match(std::span<const Tensor> tensors, const Families& families, const Config& config,
                          std::shared_ptr<const Family>& owner) {
    if (!are_adapter_tensors(tensors, config)) return {};
    const auto made = std::make_shared<const Families>(adapter_families(families));
    std::string why_not;
    FamilyMatch best = best_match(tensors, *made, config, why_not);
    if (!best.family) return {};
    if (!best.unknown.empty() && knows_any(families[*families.find(best.family->name)], tensors)) return {};
    owner = {made, best.family};
    return best;
}

/// read() for tensors of which none is state of a virtual node.
Reading read_model(std::span<const Tensor> tensors, const Families& families, const Config& config) {
    Reading reading;
    reading.config = config;
    reading.lists = ListItems{config};
    FamilyMatch best = adapter_match(tensors, families, config, reading.own_family);
    if (!best.family) best = best_match(tensors, families, config, reading.why_not);
    if (best.family && !best.unknown.empty()) {
        if (auto wide = widen_family(*best.family, *best.dialect, tensors, best.unknown, config)) {
            reading.own_family = std::move(wide->family);
            best = match_dialect(*reading.own_family, *wide->dialect, tensors);
        }
    }
    if (best.family) reading.why_not.clear();
    reading.family = best.family;
    reading.dialect = best.dialect;
    reading.meanings = std::move(best.meanings);
    reading.meanings.resize(tensors.size());
    reading.unknown = std::move(best.unknown);
    if (!reading.family) {
        for (std::uint32_t t = 0; t < tensors.size(); ++t) reading.unknown.push_back(t);
        return reading;
    }
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = reading.meanings[t];
        if (meaning.kind == Meaning::Kind::parameter && meaning.role == Role::weight && meaning.rule->name.has_prefix())
            reading.prefixed = tensors[t].name.starts_with(meaning.rule->name.prefix());
    }
    reading.dims = Dims{*reading.family, reading.source(), config};
    resolve_indices(reading, tensors);
    count_layers(reading);
    solve(reading, tensors);
    reading.dims.derive(*reading.family, reading.source(), config);
    reading.complete = all_sizes_known(reading);
    if (reading.complete) choose_by_shape(reading, tensors);
    const auto tied = reading.family->tied.find(std::string{reading.source()});
    reading.tied = !config.empty() && tied != reading.family->tied.end() && holds(config, tied->second);
    return reading;
}

}  // namespace

Reading read(std::span<const Tensor> tensors, const Families& families, const Config& config) {
    const auto of_virtual_node = [](const Tensor& tensor) { return virtual_node_of(tensor.name).has_value(); };
    if (std::ranges::none_of(tensors, of_virtual_node)) return read_model(tensors, families, config);
    std::vector<Tensor> others;
    std::vector<std::uint32_t> numbers;  // of `others` among `tensors`
    std::vector<Meaning> meanings(tensors.size());
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
        if (const auto node = virtual_node_of(tensors[t].name)) {
            meanings[t] = {.kind = Meaning::Kind::extra, .virtual_node = *node};
        } else {
            others.push_back(tensors[t]);
            numbers.push_back(t);
        }
    }
    Reading reading = read_model(others, families, config);
    for (std::size_t k = 0; k < numbers.size(); ++k) meanings[numbers[k]] = std::move(reading.meanings[k]);
    for (std::uint32_t& t : reading.unknown) t = numbers[t];
    reading.meanings = std::move(meanings);
    return reading;
}

Dims sizes_in_layer(const Reading& reading, int layer) {
    return reading.dims.of_layer(*reading.family, reading.source(), reading.config, reading.lists, layer);
}

void add_dims(Reading& reading, const Dims& known) {
    if (!reading.family) return;
    for (const auto& [letter, size] : known.known()) {
        if (!reading.dims[letter]) reading.dims.set(letter, size);
    }
    reading.complete = all_sizes_known(reading);
}

char tp_factor(const Reading& reading, const CanonicalTensor& tensor) {
    if (tensor.local_tp != 0 && holds(reading.config, "transformer_impl=local")) return tensor.local_tp;
    return tensor.tp;
}

bool is_axis(const Family& family, const Meaning& meaning, char index) {
    if (meaning.kind != Meaning::Kind::parameter || meaning.role == Role::step) return false;
    const CanonicalTensor& tensor = family.tensor(meaning.rule->expression.parts[0]);
    const auto& number = index == 'l' ? meaning.indices.layer : meaning.indices.expert;
    return tensor.is_index(index) && tensor.has(index) && !number;
}

int layers(const Reading& reading, std::span<const Tensor> tensors) {
    Index count = 0;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = reading.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter) continue;
        if (meaning.indices.layer)
            count = std::max<Index>(count, *meaning.indices.layer + 1);
        else if (is_axis(*reading.family, meaning, 'l') && !tensors[t].shape.empty())
            count = std::max(count, tensors[t].shape[0]);
    }
    const auto bound = reading.family ? reading.dims['L'] : std::nullopt;
    return static_cast<int>(bound ? std::min(count, *bound) : count);
}

}  // namespace tpx
