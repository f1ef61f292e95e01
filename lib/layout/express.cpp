// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/express.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/parts.hpp"

#include <algorithm>
#include <set>

namespace tpx {
namespace {

/// The layers in which a canonical tensor occurs (-1: it has no layer), and the dtype it is stored in.
struct Occurrence {
    std::set<int> layers;
    DType dtype = DType::f32;
    std::string stored;  ///< a stored name, for messages
};

using Occurrences = std::map<std::string, Occurrence, std::less<>>;

Occurrences weights_of(const Reading& source, std::span<const Tensor> tensors, std::vector<std::string>& left_out) {
    Occurrences found;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = source.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter || meaning.role != "weight") {
            left_out.push_back(tensors[t].name);
            continue;
        }
        const bool stacked = meaning.rule->name.optional('l') && !meaning.indices.layer;
        for (const std::string& part : meaning.rule->expression.parts) {
            Occurrence& occurrence = found[part];
            occurrence.dtype = tensors[t].dtype;
            occurrence.stored = tensors[t].name;
            for (int l = 0; stacked && l < tensors[t].shape[0]; ++l) occurrence.layers.insert(l);
            if (!stacked) occurrence.layers.insert(meaning.indices.layer.value_or(-1));
        }
    }
    return found;
}

/// Rules with other tags are spellings that are read but not written ("local" rank files, "new" names).
bool written(const Rule& rule) { return rule.tags.empty() || std::ranges::find(rule.tags, "tied") != rule.tags.end(); }

/// The size that `letter` is padded to in the dialect of `reading`; nothing when the configuration lacks the divisor.
std::optional<Index> padded_size(const Reading& reading, const Config& config, int tp, char letter, Index size) {
    const auto dialect = reading.family->pad.find(reading.dialect->name);
    if (dialect == reading.family->pad.end() || !dialect->second.contains(letter)) return size;
    const auto multiple = reading.dims.evaluate(dialect->second.at(letter), config, {{"tp", std::int64_t{tp}}});
    if (!multiple || *multiple <= 0) return std::nullopt;
    return (size + *multiple - 1) / *multiple * *multiple;
}

/// `stored` is the shape it has now, if it has one: kept where the padding is not known and still fits.
Shape shape_of(const Reading& reading, const Meaning& meaning, const Config& config, int tp, Index stacked,
               const Shape* stored) {
    Shape shape;
    for (const FactoredAxis& axis : factored_axes(*reading.family, meaning, reading.dims, stacked)) {
        const char letter = axis.places.empty() ? '\0' : axis.places[0].letter;
        std::optional<Index> size = axis.size;
        if (axis.padded) size = padded_size(reading, config, tp, letter, axis.size);
        if (!size && stored && (*stored)[shape.size()] % tp == 0) size = (*stored)[shape.size()];
        if (!size)
            throw failure("to what '{}' is padded is not known; give --set make_vocab_size_divisible_by=N", letter);
        shape.push_back(*size);
    }
    return shape;
}

/// Adds the stored tensors that `rule` makes of its parts: one a layer, or one for all layers.
void apply(const Rule& rule, const Occurrence& occurrence, Index all_layers, const Config& config, int tp,
           Expressed& out) {
    const auto add = [&](NameIndices indices, Index stacked) {
        const Meaning meaning{Meaning::Kind::parameter, &rule, "weight", indices};
        const std::string name = rule.name.name(indices, out.reading.prefixed);
        in_context([&] { return fmt::format("tensor '{}'", name); },
                   [&] {
                       out.tensors.push_back(
                           {name, occurrence.dtype, shape_of(out.reading, meaning, config, tp, stacked, nullptr)});
                   });
        out.reading.meanings.push_back(meaning);
    };
    const bool in_all_layers =
        static_cast<Index>(occurrence.layers.size()) == all_layers && !occurrence.layers.contains(-1);
    if (rule.name.optional('l') && in_all_layers) return add({}, all_layers);
    for (int layer : occurrence.layers) add({layer < 0 ? std::nullopt : std::optional{layer}, std::nullopt}, 0);
}

void require_parts(const Rule& rule, const Occurrences& have, const Occurrence& first) {
    for (const std::string& part : rule.expression.parts) {
        const auto found = have.find(part);
        if (found == have.end() || found->second.layers != first.layers)
            throw failure("tensor '{}': its part '{}' is missing from the source", rule.name.text(), part);
        if (found->second.dtype != first.dtype)
            throw failure("tensor '{}': its parts have different dtypes ({} and {})", rule.name.text(),
                          name(first.dtype), name(found->second.dtype));
    }
}

}  // namespace

Expressed express(const Reading& source, std::span<const Tensor> tensors, const Dialect& dialect, const Config& config,
                  int tp) {
    if (!source.unknown.empty())
        throw failure("tensor '{}': no rule of family '{}' matches it; add one with --rules: [\"{}\", \"CANONICAL\"]",
                      tensors[source.unknown[0]].name, source.family->name, tensors[source.unknown[0]].name);
    if (!source.complete) {
        std::string missing;
        for (const auto& [letter, formulas] : source.family->dims) {
            if (!source.dims[letter])
                missing += fmt::format("{}{}", missing.empty() ? "" : ", ", formulas.begin()->second);
        }
        throw failure("the checkpoint does not tell {}; give the model's config.json with --config", missing);
    }
    Expressed out;
    out.reading = source;
    out.reading.dialect = &dialect;
    out.reading.prefixed = false;
    out.reading.meanings.clear();
    out.reading.unknown.clear();
    Occurrences have = weights_of(source, tensors, out.left_out);
    const auto head =
        std::ranges::find_if(source.family->tensors, [](const auto& entry) { return !entry.second.tie.empty(); });
    const bool can_tie = head != source.family->tensors.end();
    const bool lacks_head = can_tie && !have.contains(head->first);
    if (lacks_head && !source.tied && !source.config.empty())
        throw failure("tensor '{}' is missing, and the configuration does not say that it is tied to '{}'", head->first,
                      head->second.tie);
    const bool writes_tied =
        can_tie && std::ranges::any_of(dialect.rules, [&](const Rule& rule) {
            return rule.expression.parts[0] == head->first && std::ranges::find(rule.tags, "tied") != rule.tags.end();
        });
    if (lacks_head && writes_tied) {
        out.aliases[head->first] = head->second.tie;
        have[head->first] = have[head->second.tie];
    } else if (can_tie && !lacks_head && source.tied && !writes_tied) {
        out.left_out.push_back(have[head->first].stored);
        have.erase(head->first);
    }
    const Index all_layers = layers(source, tensors);
    std::set<std::string> done;
    for (const Rule& rule : dialect.rules) {
        const auto first = have.find(rule.expression.parts[0]);
        if (first == have.end() || !written(rule) || done.contains(first->first)) continue;
        require_parts(rule, have, first->second);
        apply(rule, first->second, all_layers, config, tp, out);
        done.insert(rule.expression.parts.begin(), rule.expression.parts.end());
    }
    for (const auto& [part, occurrence] : have) {
        if (!done.contains(part))
            throw failure("tensor '{}': {} names have no place for it ('{}')", occurrence.stored, dialect.name, part);
    }
    return out;
}

Expressed repad(const Reading& source, std::span<const Tensor> tensors, const Config& config, int tp) {
    Expressed out{.reading = source, .tensors = {tensors.begin(), tensors.end()}};
    if (!source.family || !source.complete) return out;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = source.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter || meaning.role == "step") continue;
        const bool stacked = meaning.rule->name.optional('l') && !meaning.indices.layer;
        in_context([&] { return fmt::format("tensor '{}'", tensors[t].name); },
                   [&] {
                       out.tensors[t].shape =
                           shape_of(source, meaning, config, tp, stacked ? tensors[t].shape[0] : 0, &tensors[t].shape);
                   });
    }
    return out;
}

std::vector<ConfigSetting> configuration_for(const Expressed& expressed, const std::string& dialect,
                                             const Config& config) {
    const Reading& reading = expressed.reading;
    const auto entries = reading.family->config.find(dialect);
    if (entries == reading.family->config.end()) return {};
    Config known = config;
    for (const Meaning& meaning : reading.meanings) {
        if (meaning.kind != Meaning::Kind::parameter) continue;
        for (const std::string& part : meaning.rule->expression.parts) known["has_" + part] = true;
    }
    known["tied"] = reading.tied || !known.contains("has_head");
    Dims dims = reading.dims;
    dims.set('l', layers(reading, expressed.tensors));
    std::vector<ConfigSetting> settings;
    for (const ConfigEntry& entry : entries->second) {
        if (auto value = dims.value(entry.formula, known))
            settings.push_back({entry.key, std::move(*value), entry.list});
    }
    return settings;
}

}  // namespace tpx
