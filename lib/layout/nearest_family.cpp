// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/nearest_family.hpp"

#include "lib/layout/matchable_names.hpp"
#include "lib/layout/name_parts.hpp"
#include "lib/layout/rule_index.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <unordered_map>

namespace tpx {
namespace {

/// The stored names in `dialect` of tensors that the family requires of every model and that are not in `present`.
std::vector<std::string> missing_names(const Family& family, const Dialect& dialect,
                                       const std::set<std::string_view>& present) {
    std::vector<std::string> missing;
    for (const auto& [name, tensor] : family.tensors) {
        if (tensor.optional || !tensor.tie.empty() || present.contains(name)) continue;
        const auto rule = std::ranges::find_if(dialect.rules, [&](const Rule& r) {
            return std::ranges::find(r.expression.parts, name) != r.expression.parts.end();
        });
        if (rule != dialect.rules.end() && std::ranges::find(missing, rule->name.text()) == missing.end())
            missing.push_back(rule->name.text());
    }
    return missing;
}

/// The tensors whose names are looked up: of each kind all of them, or the first two and the last. Rules may match a
/// name in one layer alone.
struct Samples {
    Samples(std::span<const Tensor> all, bool every) : tensors{all}, names{all} {
        std::unordered_map<std::string, std::size_t> known;
        for (std::uint32_t t = 0; t < all.size(); ++t) {
            const auto [kind, is_new] = known.try_emplace(kind_of_name(all[t].name), kinds.size());
            if (is_new) kinds.emplace_back();
            std::vector<std::uint32_t>& own = kinds[kind->second];
            if (!every && own.size() == 3) own.pop_back();
            own.push_back(t);
        }
    }

    std::span<const Tensor> tensors;
    FoldedNames names;
    std::vector<std::vector<std::uint32_t>> kinds;
};

FamilyFit fit_dialect(const Family& family, const Dialect& dialect, const Samples& samples) {
    FamilyFit fit{&family, &dialect};
    const RuleIndex index{dialect};
    std::set<std::string_view> present;
    const auto& [tensors, names, kinds] = samples;
    const auto is_unknown = [&](std::uint32_t t) {
        const Meaning meaning = index.meaning_of(tensors[t].name, names.distinct[names.of[t]]);
        if (meaning.kind == Meaning::Kind::parameter)
            present.insert(meaning.rule->expression.parts.begin(), meaning.rule->expression.parts.end());
        // Not is_whole(): in a nested dialect, most tensors of other models would count as known.
        return meaning.kind == Meaning::Kind::unknown && !dialect.is_listed_whole(tensors[t].name);
    };
    for (const std::vector<std::uint32_t>& kind : kinds) {
        const std::vector<bool> unknown = [&] {
            std::vector<bool> found;
            for (const std::uint32_t t : kind) found.push_back(is_unknown(t));
            return found;
        }();
        const auto first = std::ranges::find(unknown, true);
        fit.unexplained += static_cast<std::size_t>(std::ranges::count(unknown, true));
        if (first == unknown.end())
            ++fit.known;
        else
            fit.unknown.push_back(tensors[kind[static_cast<std::size_t>(first - unknown.begin())]].name);
    }
    if (present.empty()) fit.known = 0;
    fit.missing = missing_names(family, dialect, present);
    return fit;
}

/// Larger is better. An unknown tensor may be a missing one under another name, so only missing tensors beyond these
/// count; among equal fits, the family with the fewest tensors wins, then one that needs no model_type.
auto rank(const FamilyFit& fit) {
    const std::size_t lacking = fit.missing.size() - std::min(fit.missing.size(), fit.unknown.size());
    return std::tuple{static_cast<std::ptrdiff_t>(2 * fit.known) - static_cast<std::ptrdiff_t>(lacking),
                      -static_cast<std::ptrdiff_t>(fit.family->tensors.size()), !fit.family->told};
}

FamilyFit best_dialect(const Family& family, const Samples& samples) {
    FamilyFit best{&family, nullptr};
    for (const Dialect& dialect : family.dialects) {
        FamilyFit fit = fit_dialect(family, dialect, samples);
        if (best.dialect == nullptr || rank(fit) > rank(best)) best = std::move(fit);
    }
    return best;
}

}  // namespace

std::string kind_of_name(std::string_view name) {
    std::vector<std::string> parts = name_parts(name);
    bool has_layer = false;
    for (std::size_t k = 0; k < parts.size(); ++k) {
        if (!is_number(parts[k])) continue;
        const bool of_expert = k > 0 && parts[k - 1].find("expert") != std::string::npos;
        if (of_expert || !has_layer) parts[k] = "#";
        has_layer = has_layer || !of_expert;
    }
    return fmt::format("{}", fmt::join(parts, "."));
}

std::string FamilyFit::describe() const {
    const auto few = [](const std::vector<std::string>& all) {
        constexpr std::size_t shown = 3;
        const auto some = std::span{all}.first(std::min(all.size(), shown));
        const std::size_t more = all.size() - some.size();
        return fmt::format("'{}'{}", fmt::join(some, "', '"), more > 0 ? fmt::format(" and {} more", more) : "");
    };
    std::string text = fmt::format("family '{}' ({} names) matches {} of {} kinds of names", family->name,
                                   dialect->name, known, total());
    if (!unknown.empty()) text += fmt::format(", but not {}", few(unknown));
    if (!missing.empty()) text += fmt::format("; it requires {}", few(missing));
    return text;
}

FamilyFit fit_family(const Family& family, std::span<const Tensor> tensors) {
    return best_dialect(family, Samples{tensors, true});
}

std::optional<FamilyFit> nearest_family(std::span<const Tensor> tensors, const Families& families) {
    const Samples samples{tensors, false};
    std::optional<FamilyFit> best;
    const MatchableNames matchable{samples.names.distinct};
    for (std::size_t number = 0; number < families.size(); ++number) {
        if (!families.head(number).may_match(matchable)) continue;
        FamilyFit fit = best_dialect(families[number], samples);
        if (fit.known > 0 && (!best || rank(fit) > rank(*best))) best = std::move(fit);
    }
    if (best && 2 * best->known < best->total()) best.reset();
    return best;
}

}  // namespace tpx
