// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/reading.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/parts.hpp"

#include <algorithm>
#include <set>

namespace tpx {
namespace {

/// A role pattern or a glob finds what a name says before any rule does: optimizer state is named after its parameter.
Meaning meaning_of(const Dialect& dialect, std::string_view name) {
    for (const std::string& extra : dialect.extra) {
        if (glob_match(extra, name)) return {.kind = Meaning::Kind::extra};
    }
    Meaning meaning;
    for (const RolePattern& pattern : dialect.roles) {
        if (const auto parameter = star_of(pattern.pattern, name)) {
            name = *parameter;
            meaning.role = pattern.role;
            break;
        }
    }
    for (const Rule& rule : dialect.rules) {
        if (const auto indices = rule.name.match(name)) {
            meaning.kind = Meaning::Kind::parameter;
            meaning.rule = &rule;
            meaning.indices = *indices;
            return meaning;
        }
    }
    return meaning;
}

struct Candidate {
    const Family* family = nullptr;
    const Dialect* dialect = nullptr;
    std::vector<Meaning> meanings;
    std::vector<std::uint32_t> unknown;
    std::size_t parameters = 0;
    std::string missing;  ///< a tensor that the family requires and nobody stores
};

Candidate match(const Family& family, const Dialect& dialect, std::span<const Tensor> tensors) {
    Candidate candidate{&family, &dialect};
    std::set<std::string_view> present;
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
        candidate.meanings.push_back(meaning_of(dialect, tensors[t].name));
        const Meaning& meaning = candidate.meanings.back();
        if (meaning.kind == Meaning::Kind::unknown) candidate.unknown.push_back(t);
        if (meaning.kind != Meaning::Kind::parameter) continue;
        ++candidate.parameters;
        present.insert(meaning.rule->expression.parts.begin(), meaning.rule->expression.parts.end());
    }
    for (const auto& [name, tensor] : family.tensors) {
        if (!tensor.optional && tensor.tie.empty() && !present.contains(name)) candidate.missing = name;
    }
    return candidate;
}

/// What a configuration says of a family: yes, no, or nothing.
enum class Verdict { yes, no, silent };

Verdict ask(const Family& family, std::string_view source, const Config& config) {
    const auto detect = family.detect.find(std::string{source});
    if (source == "mcore") {
        if (detect == family.detect.end() || !config.contains("num_layers")) return Verdict::silent;
        return std::ranges::all_of(detect->second, [&](const std::string& c) { return holds(config, c); })
                   ? Verdict::yes
                   : Verdict::no;
    }
    const auto type = config.find("model_type");
    if (detect == family.detect.end() || type == config.end()) return Verdict::silent;
    const auto* text = std::get_if<std::string>(&type->second);
    return text && std::ranges::find(detect->second, *text) != detect->second.end() ? Verdict::yes : Verdict::no;
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
            std::vector<Axis> axes = meaning.rule->expression.axes;
            if (axes.empty()) axes = reading.family->tensor(meaning.rule->expression.parts[0]).axes;
            std::erase_if(axes, [](const Axis& axis) { return axis[0].letter == 'l' || axis[0].letter == 'e'; });
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
                    if (token.letter != 'l' && token.letter != 'e' && !reading.dims[token.letter]) return false;
                }
            }
        }
    }
    return true;
}

Candidate best_candidate(std::span<const Tensor> tensors, std::span<const Family> families, const Config& config,
                         std::string& why_not) {
    Candidate best;
    std::size_t closest = 0;
    for (const Family& family : families) {
        for (const Dialect& dialect : family.dialects) {
            const Verdict verdict = ask(family, dialect.name == "mcore" ? "mcore" : "hf", config);
            if (verdict == Verdict::no) continue;
            Candidate candidate = match(family, dialect, tensors);
            const bool whole = candidate.unknown.empty() && candidate.missing.empty();
            if (candidate.parameters == 0 || candidate.parameters < closest) continue;
            closest = candidate.parameters;
            if (whole || (verdict == Verdict::yes && candidate.missing.empty())) {
                best = std::move(candidate);
            } else {
                best = {};
                why_not = candidate.unknown.empty()
                              ? fmt::format("family '{}' in {} names lacks tensor '{}'", family.name, dialect.name,
                                            candidate.missing)
                              : fmt::format("family '{}' in {} names has no rule for tensor '{}'", family.name,
                                            dialect.name, tensors[candidate.unknown[0]].name);
            }
        }
    }
    if (best.family)
        why_not.clear();
    else if (why_not.empty())
        why_not = "no family has rules for these names";
    return best;
}

}  // namespace

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

int layers(const Reading& reading, std::span<const Tensor> tensors) {
    Index count = 0;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = reading.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter) continue;
        if (meaning.indices.layer)
            count = std::max<Index>(count, *meaning.indices.layer + 1);
        else if (meaning.rule->name.optional('l') && !tensors[t].shape.empty())
            count = std::max(count, tensors[t].shape[0]);
    }
    return static_cast<int>(count);
}

}  // namespace tpx
