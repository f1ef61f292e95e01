// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/rule_index.hpp"

#include "lib/layout/notation.hpp"

#include <algorithm>
#include <array>

namespace tpx {
namespace {

bool has_number(std::string_view text) { return text.find_first_of("0123456789#") != text.npos; }

// A pattern that matches fold_numbers(name) for every name that `glob` matches. A number next to a star is dropped,
// because the star may match more of its digits.
std::string folded_glob(std::string_view glob) {
    const std::string folded = fold_numbers(glob);
    std::string loose;
    for (std::size_t i = 0; i < folded.size(); ++i) {
        const bool by_star = (i > 0 && folded[i - 1] == '*') || (i + 1 < folded.size() && folded[i + 1] == '*');
        if (folded[i] != '#' || !by_star) loose += folded[i];
    }
    return loose;
}

/// `name` without the prefix of the object that contains Megatron's model in NeMo: `module.` in NeMo 2, `model.` in
/// NeMo 1. Unchanged if there is none.
std::string_view unwrapped(const Dialect& dialect, std::string_view name) {
    constexpr std::array<std::string_view, 2> holders{"module.", "model."};
    if (dialect.name != "mcore") return name;
    for (const std::string_view holder : holders)
        if (name.starts_with(holder)) return name.substr(holder.size());
    return name;
}

}  // namespace

FoldedNames::FoldedNames(std::span<const Tensor> tensors) {
    std::unordered_map<std::string, std::uint32_t> known;
    of.reserve(tensors.size());
    for (const Tensor& tensor : tensors) {
        const auto [entry, is_new] =
            known.try_emplace(fold_numbers(tensor.name), static_cast<std::uint32_t>(distinct.size()));
        if (is_new) distinct.push_back(entry->first);
        of.push_back(entry->second);
    }
}

RuleIndex::RuleIndex(const Dialect& dialect) : dialect_{dialect} {
    for (const Rule& rule : dialect.rules) {
        for (std::string& name : rule.name.folded()) rules_[std::move(name)].push_back(&rule);
    }
}

std::span<const RolePattern> RuleIndex::roles() const {
    return dialect_.roles.empty() ? torch_roles() : std::span<const RolePattern>{dialect_.roles};
}

Meaning RuleIndex::meaning_of(std::string_view name, const std::string& folded) const {
    Meaning meaning = by_rule(name, folded);
    if (meaning.kind != Meaning::Kind::unknown) return meaning;
    for (const RolePattern& pattern : roles()) {
        const auto parameter = wildcard_match(pattern.pattern, name);
        if (!parameter) continue;
        meaning = by_rule(*parameter, fold_numbers(*parameter));
        meaning.role = pattern.role;
        if (meaning.kind != Meaning::Kind::unknown) return meaning;
    }
    for (const std::string& extra : dialect_.extra) {
        if (glob_match(extra, name)) return {.kind = Meaning::Kind::extra};
    }
    return meaning;
}

const std::vector<const Rule*>* RuleIndex::rules_for(const std::string& folded) const {
    auto found = rules_.find(folded);
    if (found != rules_.end()) return &found->second;
    const std::string_view bare = unwrapped(dialect_, folded);
    if (bare.size() == folded.size()) return nullptr;
    found = rules_.find(std::string{bare});
    return found == rules_.end() ? nullptr : &found->second;
}

bool RuleIndex::may_match(const std::string& folded) const {
    if (rules_for(folded)) return true;
    return std::ranges::any_of(roles(),
                               [&](const RolePattern& pattern) {
                                   if (has_number(pattern.pattern))
                                       return glob_match(folded_glob(pattern.pattern), folded);
                                   const auto parameter = wildcard_match(pattern.pattern, folded);
                                   return parameter && rules_for(std::string{*parameter});
                               }) ||
           std::ranges::any_of(dialect_.extra,
                               [&](const std::string& extra) { return glob_match(folded_glob(extra), folded); });
}

Meaning RuleIndex::by_rule(std::string_view name, const std::string& folded) const {
    const std::vector<const Rule*>* found = rules_for(folded);
    if (!found) return {};
    const std::string_view bare = unwrapped(dialect_, name);
    for (const Rule* rule : *found) {
        auto numbers = rule->name.match(name);
        if (!numbers && bare.size() < name.size()) numbers = rule->name.match(bare);
        if (numbers) return {.kind = Meaning::Kind::parameter, .rule = rule, .indices = *numbers};
    }
    return {};
}

}  // namespace tpx
