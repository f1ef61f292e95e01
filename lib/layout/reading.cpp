// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/reading.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/parts.hpp"
#include "lib/layout/rule_book.hpp"
#include "lib/layout/suggest.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace tpx {
namespace {

/// What a configuration says of a family: no, nothing, or yes.
enum class Verdict { no, silent, yes };

/// Whether a tag of `rule` names a tensor of the family that is not among those `present`.
bool speaks_of_absent(const Family& family, const Rule& rule, const std::set<std::string_view>& present) {
    return std::ranges::any_of(rule.tags, [&](std::string_view tag) {
        for (const std::string_view word :
             {tag.substr(0, tag.find('+')), tag.substr(std::min(tag.find('+') + 1, tag.size()))}) {
            if (family.tensors.contains(word) && !present.contains(word)) return true;
        }
        return false;
    });
}

struct Candidate {
    const Family* family = nullptr;
    const Dialect* dialect = nullptr;
    Verdict verdict = Verdict::silent;
    bool named = false;     ///< the family is the one for models that do not say what they are
    std::size_t asked = 0;  ///< conditions on the configuration, which all hold
    std::vector<Meaning> meanings;
    std::vector<std::uint32_t> unknown;
    std::size_t parameters = 0;
    std::string missing;  ///< a tensor that the family requires and nobody stores

    bool fits() const { return parameters > 0 && missing.empty() && (unknown.empty() || verdict == Verdict::yes); }
    /// Better ones are larger. Of families that fit alike, the one that asks most of the configuration says most, and
    /// then the one with the fewest tensors.
    auto rank() const {
        return std::tuple{fits(), verdict, parameters,
                          named,  asked,   -static_cast<std::ptrdiff_t>(family->tensors.size())};
    }
};

/// Of several rules for one name, the first counts that speaks only of tensors that are present.
void settle(const Family& family, const Dialect& dialect, std::vector<Meaning>& meanings,
            const std::set<std::string_view>& present) {
    for (Meaning& meaning : meanings) {
        if (meaning.kind != Meaning::Kind::parameter || !speaks_of_absent(family, *meaning.rule, present)) continue;
        const auto other = std::ranges::find_if(dialect.rules, [&](const Rule& rule) {
            return rule.name.text() == meaning.rule->name.text() && !speaks_of_absent(family, rule, present);
        });
        if (other != dialect.rules.end()) meaning.rule = &*other;
    }
}

Candidate match(const Family& family, const Dialect& dialect, std::span<const Tensor> tensors,
                const FoldedNames& names) {
    Candidate candidate{&family, &dialect};
    const RuleBook book{dialect};
    std::vector<bool> may_know;
    for (const std::string& folded : names.distinct) may_know.push_back(book.may_know(folded));
    std::set<std::string_view> present;
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
        const std::uint32_t folded = names.of[t];
        candidate.meanings.push_back(may_know[folded] ? book.meaning_of(tensors[t].name, names.distinct[folded])
                                                      : Meaning{});
        const Meaning& meaning = candidate.meanings.back();
        if (meaning.kind == Meaning::Kind::unknown) candidate.unknown.push_back(t);
        if (meaning.kind != Meaning::Kind::parameter) continue;
        ++candidate.parameters;
        present.insert(meaning.rule->expression.parts.begin(), meaning.rule->expression.parts.end());
    }
    settle(family, dialect, candidate.meanings, present);
    for (const auto& [name, tensor] : family.tensors) {
        if (!tensor.optional && tensor.tie.empty() && !present.contains(name)) candidate.missing = name;
    }
    return candidate;
}

/// The model_type that a configuration names, if any of `families` goes by it; Megatron's args may say it, too.
std::optional<std::string> model_type(std::span<const Family> families, const Config& config) {
    for (const char* key : {"hf_model_type", "model_type"}) {
        const auto found = config.find(key);
        const auto* text = found == config.end() ? nullptr : std::get_if<std::string>(&found->second);
        if (!text) continue;
        for (const Family& family : families) {
            const auto types = family.detect.find("hf");
            if (types != family.detect.end() && std::ranges::find(types->second, *text) != types->second.end())
                return *text;
        }
    }
    return std::nullopt;
}

Verdict ask(const Family& family, std::string_view source, const Config& config,
            const std::optional<std::string>& type) {
    if (const auto types = family.detect.find("hf"); types != family.detect.end() && type)
        return std::ranges::find(types->second, *type) != types->second.end() ? Verdict::yes : Verdict::no;
    const auto detect = family.detect.find(std::string{source});
    if (detect == family.detect.end()) return Verdict::silent;
    if (source == "mcore" && config.contains("num_layers"))
        return std::ranges::all_of(detect->second, [&](const std::string& c) { return holds(config, c); })
                   ? Verdict::yes
                   : Verdict::no;
    return source == "hf" && config.contains("model_type") ? Verdict::no : Verdict::silent;
}

/// Sizes that no configuration told, from shapes: an axis of one unknown factor and known ones gives it away.
void solve(Reading& reading, std::span<const Tensor> tensors) {
    for (bool found = true; found;) {
        found = false;
        for (std::size_t t = 0; t < tensors.size(); ++t) {
            const Meaning& meaning = reading.meanings[t];
            if (meaning.kind != Meaning::Kind::parameter || meaning.rule->expression.parts.size() > 1 ||
                meaning.role == "step")
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
                    if (const auto size = reading.dims[token.letter]) {
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

bool all_sizes_known(const Reading& reading) {
    for (const Meaning& meaning : reading.meanings) {
        if (meaning.kind != Meaning::Kind::parameter) continue;
        for (const std::string& part : meaning.rule->expression.parts) {
            for (const Axis& axis : reading.family->tensor(part).axes) {
                for (Token token : axis) {
                    if (token.letter != 'l' && !reading.dims[token.letter]) return false;
                }
            }
        }
    }
    return true;
}

std::string lacks(const Candidate& closest, std::span<const Tensor> tensors, const Config& config) {
    if (closest.unknown.empty())
        return fmt::format("family '{}' in {} names lacks tensor '{}'", closest.family->name, closest.dialect->name,
                           closest.missing);
    const std::string_view source = configured_by(*closest.dialect, config);
    const Tensor& tensor = tensors[closest.unknown[0]];
    return fmt::format("tensor '{}', {} names: {}", tensor.name, closest.dialect->name,
                       without_rule(*closest.family, *closest.dialect, Dims{*closest.family, source, config}, tensor));
}

/// Why no family was even tried.
std::string unheard_of(const Config& config, const std::optional<std::string>& known) {
    if (known)
        return fmt::format(
            "no tensor has a name that the family for model_type '{}' knows; tpx-rules(5) tells how to add "
            "some with --rules",
            *known);
    const auto type = config.find("model_type");
    const auto* text = type == config.end() ? nullptr : std::get_if<std::string>(&type->second);
    return text ? fmt::format("no family is for model_type '{}'; tpx-rules(5) tells how to add one with --rules", *text)
                : "no family has rules for these names";
}

Candidate best_candidate(std::span<const Tensor> tensors, std::span<const Family> families, const Config& config,
                         std::string& why_not) {
    const auto type = model_type(families, config);
    const FoldedNames names{tensors};
    Candidate best;
    for (const Family& family : families) {
        for (const Dialect& dialect : family.dialects) {
            const std::string_view source = dialect.name == "mcore" ? "mcore" : "hf";
            const Verdict verdict = ask(family, source, config, type);
            if (verdict == Verdict::no) continue;
            Candidate candidate = match(family, dialect, tensors, names);
            candidate.verdict = verdict;
            const auto detect = family.detect.find(dialect.name == "hf" ? "hf" : "mcore");
            candidate.named = detect != family.detect.end();
            if (verdict == Verdict::yes && source == "mcore" && candidate.named && !type)
                candidate.asked = detect->second.size();
            if (candidate.parameters > 0 && (!best.family || candidate.rank() > best.rank()))
                best = std::move(candidate);
        }
    }
    if (best.family && best.fits()) return best;
    why_not = best.family ? lacks(best, tensors, config) : unheard_of(config, type);
    return {};
}

/// Where names count from a bound that no configuration tells, it is the number of those below it.
void find_bounds(Reading& reading, std::span<const Tensor> tensors) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = reading.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter) continue;
        const NameTemplate::Range range = meaning.rule->name.range('l');
        if (range.letter == 0 || range.from || reading.dims[range.letter]) continue;
        Index bound = 0;
        for (std::size_t other = t; other < tensors.size(); ++other) {
            const Meaning& same = reading.meanings[other];
            if (same.kind != Meaning::Kind::parameter || same.rule->name.range('l').letter != range.letter ||
                same.rule->name.range('l').from)
                continue;
            const bool axis = !same.indices.layer && !tensors[other].shape.empty();
            bound = std::max<Index>(bound, axis ? tensors[other].shape[0] : same.indices.layer.value_or(-1) + 1);
        }
        reading.dims.set(range.letter, bound);
    }
}

/// Numbers in names become indices. Throws Error "tensor 'NAME': ..." when a name is not for its number.
void resolve_indices(Reading& reading, std::span<const Tensor> tensors) {
    find_bounds(reading, tensors);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        Meaning& meaning = reading.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter) continue;
        const auto indices = indices_of(meaning.rule->name, meaning.indices, reading.dims);
        if (!indices)
            throw failure("tensor '{}': layer {} is not below {} = {}", tensors[t].name,
                          meaning.indices.layer.value_or(0), meaning.rule->name.range('l').letter,
                          reading.dims[meaning.rule->name.range('l').letter].value_or(0));
        meaning.indices = *indices;
    }
}

}  // namespace

std::string_view configured_by(const Dialect& dialect, const Config& config) {
    const bool args = config.contains("num_layers") || !config.contains("model_type");
    return dialect.name == "mcore" && args ? "mcore" : "hf";
}

Reading read(std::span<const Tensor> tensors, std::span<const Family> families, const Config& config) {
    Reading reading;
    reading.config = config;
    Candidate best = best_candidate(tensors, families, config, reading.why_not);
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
        if (meaning.kind == Meaning::Kind::parameter && meaning.role == "weight" && meaning.rule->name.has_prefix())
            reading.prefixed = tensors[t].name.starts_with(meaning.rule->name.prefix());
    }
    reading.dims = Dims{*reading.family, reading.source(), config};
    resolve_indices(reading, tensors);
    solve(reading, tensors);
    reading.dims.derive(*reading.family, reading.source(), config);
    reading.complete = all_sizes_known(reading);
    const auto tied = reading.family->tied.find(std::string{reading.source()});
    reading.tied = !config.empty() && tied != reading.family->tied.end() && holds(config, tied->second);
    return reading;
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
    if (meaning.kind != Meaning::Kind::parameter || meaning.role == "step") return false;
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
