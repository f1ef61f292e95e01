// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/dialect_choice.hpp"

#include "formats/driver.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/beyond_rules.hpp"
#include "lib/layout/express.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>

namespace tpx::formats {
namespace {

/// Whether names of weights contain the prefix of a wrapper of the model, which the target's framework would not
/// recognize.
bool is_wrapped(const Source& source) {
    const Checkpoint& checkpoint = source.checkpoint;
    for (std::size_t t = 0; t < checkpoint.parameters.size(); ++t)
        if (checkpoint.roles[t] == Role::weight && checkpoint.parameters[t] != checkpoint.catalogue.tensors[t].name)
            return true;
    return false;
}

/// Whether the configuration has a model_type of a known family.
bool names_known_model(const Source& source) {
    const auto type = source.reading.config.find("model_type");
    const auto* text = type == source.reading.config.end() ? nullptr : std::get_if<std::string>(&type->second);
    return text != nullptr && source.families.has_type(*text);
}

/// Whether one side stores the family's tensors under per-rank names and the other under names for the whole model.
bool changes_rank_names(const Source& source, const Target& target) {
    const Format from = source.checkpoint.format;
    return from->has_args && target.format->has_args && from->has_rank_names != target.format->has_rank_names &&
           source.reading.family &&
           std::ranges::any_of(source.reading.dialect->rules, [](const Rule& rule) { return rule.tagged("ranks"); });
}

/// Whether both formats store the same tensors under the same names: the formats are equal, or both store Megatron's
/// whole tensors.
bool names_alike(const Driver& a, const Driver& b) {
    return &a == &b || (stores_megatron_tensors(a) && stores_megatron_tensors(b));
}

/// Rejects conversion to Megatron names if parts outside the language model have none, and conversion to a format in
/// which Megatron Bridge does not write such models.
void check_outer(const Source& source, const Target& target, std::string_view wanted) {
    const Reading& reading = source.reading;
    if (wanted != "mcore" || !reading.family || reading.dialect->name == wanted) return;
    if (reading.family->is_outer && target.format->has_rank_names)
        throw Error{Exit::usage,
                    "--format megatron: Megatron Bridge stores models with parts outside the language model as "
                    "torch_dist; use --format torch_dist"};
    const auto whole = outer_tensors(reading, source.checkpoint.catalogue.tensors);
    if (whole.empty()) return;
    std::set<std::string> known;
    for (const Family& family : source.families)
        for (const OuterModel& outer : family.outer)
            if (outer.nest.contains("mcore")) known.insert(outer.types.begin(), outer.types.end());
    throw failure(
        "cannot convert to Megatron names: {} {} outside the language model, such as '{}', {} no Megatron name; such "
        "names are known for model_type {}",
        whole.size(), whole.size() == 1 ? "tensor" : "tensors", whole[0]->name, whole.size() == 1 ? "has" : "have",
        fmt::join(known, ", "));
}

/// Whether parts outside the language model have no torchtitan name. Throws Error if such names are asked for.
bool lacks_titan_names(const Source& source, std::string_view wanted, bool asked) {
    const Reading& reading = source.reading;
    if (wanted != "titan" || !reading.family || reading.dialect->name == wanted) return false;
    const auto whole = outer_tensors(reading, source.checkpoint.catalogue.tensors);
    if (asked && !whole.empty())
        throw failure(
            "cannot convert to torchtitan's names: {} outside the language model, such as '{}', {} no such name; "
            "--dialect keep leaves the names as they are",
            counted(whole.size(), "tensor"), whole[0]->name, whole.size() == 1 ? "has" : "have");
    return !whole.empty();
}

/// Why torchtitan's model of the family does not match the stored tensors; "" if it does, or without such a model.
std::string why_no_titan_model(const Source& source) {
    const Reading& reading = source.reading;
    const Dialect* titan = reading.family ? reading.family->dialect("titan") : nullptr;
    if (titan == nullptr || reading.dialect == titan) return "";
    std::set<std::string_view> stored;
    for (std::size_t t = 0; t < reading.meanings.size(); ++t) {
        const Meaning& meaning = reading.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter) continue;
        for (const std::string& part : meaning.rule->expression.parts) {
            const bool named = std::ranges::any_of(titan->rules, [&](const Rule& rule) {
                return std::ranges::find(rule.expression.parts, part) != rule.expression.parts.end();
            });
            if (!named) return fmt::format("has no '{}'", source.checkpoint.catalogue.tensors[t].name);
            stored.insert(part);
        }
    }
    const bool is_base = !reading.prefixed && !reading.dialect->bare && !stored.contains("head");
    return is_base && reading.family->tensors.contains("head") ? "needs an output layer" : "";
}

/// The dialect `wanted` of the recognized family. If the family has none: throws Error if `must`, because the target
/// requires it; otherwise adds a note and returns nullptr.
const Dialect* names_of_family(const Reading& reading, std::string_view wanted, bool must,
                               std::vector<std::string>& notes) {
    if (reading.dialect->name == wanted) return reading.dialect;  // nested names stay nested
    if (const Dialect* dialect = reading.family->dialect(wanted)) return dialect;
    if (must) throw Error{Exit::usage, "family '{}' has no {} names", reading.family->name, wanted};
    notes.push_back(fmt::format("names are kept: family '{}' has no {} names", reading.family->name, wanted));
    return nullptr;
}

/// The note that names are kept because the model or its sizes are unknown. Throws Error if transformers would
/// recognize the output as one of its models but fail to load it.
std::string note_of_unknown_model(const Source& source, const Target& target, std::string_view wanted) {
    const Reading& reading = source.reading;
    // The kept names would look like a transformers model without config.json.
    if (reading.family && target.format->is_hugging_face)
        throw Error{
            Exit::usage,
            "cannot convert to {} names: sizes are unknown ({}); pass --config config.json, or --set KEY=N for each; "
            "--dialect keep leaves the names as they are",
            wanted, missing_sizes(reading)};
    // With that model's config.json, transformers would load none of the tensors.
    if (!reading.family && target.format->is_hugging_face && names_known_model(source))
        throw failure("cannot convert to {} names: {}; --dialect keep leaves the names as they are", wanted,
                      reading.why_not);
    return reading.family ? "names are kept: dimensions needed to convert them are unknown (pass --config config.json)"
                          : fmt::format("names are kept: {}", reading.why_not);
}

/// Why torchtitan's names, which the target prefers but nobody asked for, cannot be used; "" if they can.
std::string why_no_titan_names(const Source& source, std::string_view wanted, bool asked) {
    if (lacks_titan_names(source, wanted, asked)) return "parts outside the language model have no torchtitan names";
    const std::string why = wanted == "titan" && !asked ? why_no_titan_model(source) : "";
    return why.empty() ? "" : "torchtitan's model " + why;
}

}  // namespace

const Dialect* choose_dialect(const Source& source, const Target& target, std::vector<std::string>& notes) {
    const Reading& reading = source.reading;
    const bool asked = !target.dialect.empty();
    if (target.dialect == "keep") return nullptr;
    if (target.format->has_param_groups && source.checkpoint.format->has_param_groups) {
        if (asked) throw Error{Exit::usage, "--dialect: {} keeps the module's names", name(target.format)};
        return nullptr;
    }
    const std::string_view wanted = asked ? std::string_view{target.dialect} : target.format->dialect;
    if (wanted.empty()) return nullptr;
    check_outer(source, target, wanted);
    if (const std::string why = why_no_titan_names(source, wanted, asked); !why.empty()) {
        notes.push_back("names are kept: " + why);
        return nullptr;
    }
    const bool has_wanted = reading.family && reading.dialect->name == wanted;
    const bool unwrap = (target.format->is_hugging_face || target.format->has_args) && has_wanted && is_wrapped(source);
    if (!asked && !unwrap && names_alike(*source.checkpoint.format, *target.format)) return nullptr;
    const bool must = asked || target.format->has_args;
    // A source with Megatron names in another format may lack what Megatron's files contain: padding, args, groups.
    const bool whole = source.checkpoint.format->has_args || source.checkpoint.common;
    const bool named = has_wanted && !unwrap;
    if (named && changes_rank_names(source, target)) return reading.dialect;
    if (named && (!target.format->has_args || whole)) return nullptr;
    if (reading.family && (reading.complete || must)) return names_of_family(reading, wanted, must, notes);
    if (must) throw failure("cannot convert to {} names: {}", wanted, reading.why_not);
    notes.push_back(note_of_unknown_model(source, target, wanted));
    return nullptr;
}

}  // namespace tpx::formats
