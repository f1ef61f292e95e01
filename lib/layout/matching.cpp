// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/matching.hpp"

#include "lib/layout/beyond_rules.hpp"
#include "lib/layout/matchable_names.hpp"
#include "lib/layout/rule_index.hpp"
#include "lib/layout/suggest_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

namespace tpx {
namespace {

/// Whether a tag of `rule` names a tensor of the family that is not among those `present`.
bool names_absent_tensor(const Family& family, const Rule& rule, const std::set<std::string_view>& present) {
    return std::ranges::any_of(rule.tags, [&](std::string_view tag) {
        for (const std::string_view word :
             {tag.substr(0, tag.find('+')), tag.substr(std::min(tag.find('+') + 1, tag.size()))}) {
            if (family.tensors.contains(word) && !present.contains(word)) return true;
        }
        return false;
    });
}

/// If several rules have the same name, chooses the first one whose tags name no absent tensor.
void settle(const Family& family, const Dialect& dialect, std::vector<Meaning>& meanings,
            std::set<std::string_view>& present) {
    const std::set<std::string_view> before = present;
    for (Meaning& meaning : meanings) {
        if (meaning.kind != Meaning::Kind::parameter || !names_absent_tensor(family, *meaning.rule, before)) continue;
        const auto other = std::ranges::find_if(dialect.rules, [&](const Rule& rule) {
            return rule.name.text() == meaning.rule->name.text() && !names_absent_tensor(family, rule, before);
        });
        if (other == dialect.rules.end()) continue;
        meaning.rule = &*other;
        present.insert(other->expression.parts.begin(), other->expression.parts.end());
    }
}

FamilyMatch match(const Family& family, const Dialect& dialect, std::span<const Tensor> tensors,
                  const FoldedNames& names) {
    FamilyMatch found{&family, &dialect};
    const RuleIndex index{dialect};
    std::vector<bool> may_match;
    for (const std::string& folded : names.distinct) may_match.push_back(index.may_match(folded));
    if (std::ranges::none_of(may_match, std::identity{})) return found;
    std::set<std::string_view> present;
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
        const std::uint32_t folded = names.of[t];
        found.meanings.push_back(may_match[folded] ? index.meaning_of(tensors[t].name, names.distinct[folded])
                                                   : Meaning{});
        const Meaning& meaning = found.meanings.back();
        if (meaning.kind == Meaning::Kind::unknown) found.unknown.push_back(t);
        if (meaning.kind != Meaning::Kind::parameter) continue;
        ++found.parameters;
        present.insert(meaning.rule->expression.parts.begin(), meaning.rule->expression.parts.end());
    }
    settle(family, dialect, found.meanings, present);
    for (const auto& [name, tensor] : family.tensors) {
        if (!tensor.optional && tensor.tie.empty() && !present.contains(name)) found.missing = name;
    }
    return found;
}

/// Whether `config` is that of a config.json. Megatron's args also have a model_type, but not as text.
bool names_model_type(const Config& config) {
    const auto found = config.find("model_type");
    return found != config.end() && std::holds_alternative<std::string>(found->second);
}

/// The model_type of a configuration, if one of `families` has it; Megatron's args may contain it as hf_model_type.
std::optional<std::string> model_type(const Families& families, const Config& config) {
    for (const char* key : {"hf_model_type", "model_type"}) {
        const auto found = config.find(key);
        const auto* text = found == config.end() ? nullptr : std::get_if<std::string>(&found->second);
        if (!text) continue;
        if (families.has_type(*text)) return *text;
    }
    return std::nullopt;
}

/// Whether at least one of the conditions of detect.mcore in `conditions`, which "|" separates, holds.
bool any_holds(const Config& config, std::string_view conditions) {
    constexpr std::string_view separator = " | ";
    while (true) {
        const std::size_t end = conditions.find(separator);
        if (holds(config, conditions.substr(0, end))) return true;
        if (end == conditions.npos) return false;
        conditions.remove_prefix(end + separator.size());
    }
}

Verdict ask(const FamilyHead& family, std::string_view source, const Config& config,
            const std::optional<std::string>& type) {
    if (const auto types = family.detect.find("hf"); types != family.detect.end() && type)
        return std::ranges::find(types->second, *type) != types->second.end() ? Verdict::yes : Verdict::no;
    if (family.told) return Verdict::no;
    const auto detect = family.detect.find(std::string{source});
    if (detect == family.detect.end()) return Verdict::unknown;
    if (source == "mcore" && config.contains("num_layers"))
        return std::ranges::all_of(detect->second, [&](const std::string& c) { return any_holds(config, c); })
                   ? Verdict::yes
                   : Verdict::no;
    return source == "hf" && names_model_type(config) ? Verdict::no : Verdict::unknown;
}

std::string_view source_of(const Dialect& dialect) { return dialect.name == "mcore" ? "mcore" : "hf"; }

/// Sets `named` and `asked` of `found`.
void weigh(const FamilyHead& head, bool has_type, FamilyMatch& found) {
    const auto detect = head.detect.find(found.dialect->name == "hf" ? "hf" : "mcore");
    found.named = detect != head.detect.end();
    if (found.verdict == Verdict::yes && source_of(*found.dialect) == "mcore" && found.named && !has_type)
        found.asked = detect->second.size();
}

constexpr const char* unknown_family =
    "no model family matches these tensor names; --rules FILE adds a family, see tpx-rules(5)";

std::string lacks(const FamilyMatch& closest, std::span<const Tensor> tensors, const Config& config) {
    const auto unknown = std::ranges::find_if_not(
        closest.unknown, [&](std::uint32_t t) { return closest.dialect->is_whole(tensors[t].name); });
    if (unknown == closest.unknown.end())
        return fmt::format("family '{}', {} names: tensor '{}' is missing", closest.family->name, closest.dialect->name,
                           closest.missing);
    // If only a few names match, such as those of a head or an embedding, the model is of another family, and these
    // rules do not help.
    if (closest.verdict != Verdict::yes && closest.unknown.size() > closest.parameters) return unknown_family;
    const std::string_view source = config_source(*closest.dialect, config);
    const Tensor& tensor = tensors[*unknown];
    return fmt::format(
        "tensor '{}', {} names: {}", tensor.name, closest.dialect->name,
        missing_rule_message(*closest.family, *closest.dialect, Dims{*closest.family, source, config}, tensor));
}

/// Why no family was even tried.
std::string why_none_tried(const Config& config, const std::optional<std::string>& known) {
    if (known)
        return fmt::format(
            "no tensor has a name that the family for model_type '{}' knows; --rules FILE adds names, see tpx-rules(5)",
            *known);
    const auto type = config.find("model_type");
    const auto* text = type == config.end() ? nullptr : std::get_if<std::string>(&type->second);
    return text ? fmt::format("unknown model_type '{}'; --rules FILE adds a family, see tpx-rules(5)", *text)
                : unknown_family;
}

}  // namespace

std::string_view config_source(const Dialect& dialect, const Config& config) {
    const bool args = config.contains("num_layers");
    const bool file = names_model_type(config);
    return args == file ? (dialect.name == "mcore" ? "mcore" : "hf") : args ? "mcore" : "hf";
}

FamilyMatch match_dialect(const Family& family, const Dialect& dialect, std::span<const Tensor> tensors) {
    return match(family, dialect, tensors, FoldedNames{tensors});
}

FamilyMatch best_match(std::span<const Tensor> tensors, const Families& families, const Config& config,
                       std::string& why_not) {
    const auto type = model_type(families, config);
    const FoldedNames names{tensors};
    const MatchableNames matchable{names.distinct};
    FamilyMatch best;
    for (const Verdict verdict : {Verdict::yes, Verdict::unknown}) {
        // No other family is better than one that the configuration selects and that fits, so the others are not read.
        if (best.family && best.fits()) break;
        for (std::size_t number = 0; number < families.size(); ++number) {
            const FamilyHead& head = families.head(number);
            const auto answers = [&](std::string_view source) { return ask(head, source, config, type) == verdict; };
            if ((!answers("hf") && !answers("mcore")) || !head.may_match(matchable)) continue;
            for (const Dialect& dialect : families[number].dialects) {
                if (!answers(source_of(dialect))) continue;
                FamilyMatch found = match(families[number], dialect, tensors, names);
                found.verdict = verdict;
                weigh(head, type.has_value(), found);
                if (found.parameters > 0 && (!best.family || found.rank() > best.rank())) best = std::move(found);
            }
        }
    }
    if (best.family && best.fits()) return best;
    const auto beyond =
        std::ranges::find_if(tensors, [](const Tensor& t) { return !why_beyond_rules(t.name).empty(); });
    if (beyond != tensors.end())
        why_not = fmt::format("tensor '{}' {}", beyond->name, why_beyond_rules(beyond->name));
    else
        why_not = best.family ? lacks(best, tensors, config) : why_none_tried(config, type);
    return {};
}

}  // namespace tpx
