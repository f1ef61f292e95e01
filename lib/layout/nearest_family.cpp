// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/nearest_family.hpp"

#include "lib/layout/rule_book.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <set>
#include <tuple>
#include <unordered_set>

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

/// The tensors whose names are looked up: the first of each kind.
struct Samples {
    explicit Samples(std::span<const Tensor> all) : tensors{all}, names{all} {
        std::unordered_set<std::string> kinds;
        for (std::uint32_t t = 0; t < all.size(); ++t)
            if (kinds.insert(kind_of_name(all[t].name)).second) numbers.push_back(t);
    }

    std::span<const Tensor> tensors;
    FoldedNames names;
    std::vector<std::uint32_t> numbers;
};

FamilyFit fit_dialect(const Family& family, const Dialect& dialect, const Samples& samples) {
    FamilyFit fit{&family, &dialect};
    const RuleBook book{dialect};
    std::set<std::string_view> present;
    const auto& [tensors, names, numbers] = samples;
    for (const std::uint32_t t : numbers) {
        const Meaning meaning = book.meaning_of(tensors[t].name, names.distinct[names.of[t]]);
        // Not is_whole(): in a nested dialect, most tensors of other models would count as known.
        if (meaning.kind == Meaning::Kind::unknown && !dialect.is_listed_whole(tensors[t].name)) {
            fit.unknown.push_back(tensors[t].name);
            continue;
        }
        ++fit.known;
        if (meaning.kind == Meaning::Kind::parameter)
            present.insert(meaning.rule->expression.parts.begin(), meaning.rule->expression.parts.end());
    }
    if (present.empty()) fit.known = 0;
    fit.missing = missing_names(family, dialect, present);
    return fit;
}

/// Larger is better. An unknown tensor may be a missing one under another name, so only missing tensors beyond these
/// count; among equal fits, the family with the fewest tensors wins.
auto rank(const FamilyFit& fit) {
    const std::size_t lacking = fit.missing.size() - std::min(fit.missing.size(), fit.unknown.size());
    return std::tuple{static_cast<std::ptrdiff_t>(2 * fit.known) - static_cast<std::ptrdiff_t>(lacking),
                      -static_cast<std::ptrdiff_t>(fit.family->tensors.size())};
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
    std::string kind;
    while (true) {
        const std::size_t dot = std::min(name.find('.'), name.size());
        const std::string_view part = name.substr(0, dot);
        const bool number =
            !part.empty() && std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; });
        kind += number ? "#" : part;
        if (dot == name.size()) return kind;
        kind += '.';
        name.remove_prefix(dot + 1);
    }
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
    return best_dialect(family, Samples{tensors});
}

std::optional<FamilyFit> nearest_family(std::span<const Tensor> tensors, const Families& families) {
    const Samples samples{tensors};
    std::optional<FamilyFit> best;
    for (const Family& family : families) {
        FamilyFit fit = best_dialect(family, samples);
        if (fit.dialect != nullptr && (!best || rank(fit) > rank(*best))) best = std::move(fit);
    }
    if (best && 2 * best->known < best->total()) best.reset();
    return best;
}

}  // namespace tpx
