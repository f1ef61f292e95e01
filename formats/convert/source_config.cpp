// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/source_config.hpp"

#include "formats/convert/rename_optimizer_state.hpp"
#include "formats/settings/config_file.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/config_mismatch.hpp"
#include "lib/layout/model_state.hpp"
#include "lib/layout/places.hpp"
#include "lib/layout/remainders.hpp"
#include "lib/layout/size_text.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace tpx::formats {
namespace {

constexpr std::string_view framework = "hf";

/// The values of layer_types and mlp_layer_types in transformers up to 5.23.
constexpr std::array<std::string_view, 21> kinds_of_layers{"full_attention",
                                                           "sliding_attention",
                                                           "chunked_attention",
                                                           "window_attention",
                                                           "indexed_attention",
                                                           "compressed_sparse_attention",
                                                           "heavily_compressed_attention",
                                                           "minimax_m3_sparse",
                                                           "conv",
                                                           "moe",
                                                           "hybrid",
                                                           "hybrid_sliding",
                                                           "reference_sliding_attention",
                                                           "linear_attention",
                                                           "sparse",
                                                           "dense",
                                                           "mamba",
                                                           "attention",
                                                           "deepseek_sparse_attention",
                                                           "qwen_sparse_attention",
                                                           "hash_moe"};

/// Lists of config.json with an item for each layer.
constexpr std::array<std::string_view, 3> lists_of_layers{"layer_types", "mlp_layer_types", "layers_block_type"};

constexpr std::string_view remedy = "; correct config.json, or pass --set KEY=VALUE";

/// The first number in a name; -1 if it has none.
int first_number(std::string_view name) {
    const std::size_t begin = name.find_first_of("0123456789");
    int number = -1;
    if (begin != std::string_view::npos) std::from_chars(name.data() + begin, name.data() + name.size(), number);
    return number;
}

/// The layers whose stored names contain their own numbers. Multi-token prediction layers may be numbered separately.
std::set<int> numbered_layers(const Source& source) {
    std::set<int> numbered;
    for (std::size_t t = 0; t < source.reading.meanings.size(); ++t) {
        const Meaning& meaning = source.reading.meanings[t];
        if (meaning.kind == Meaning::Kind::parameter && meaning.indices.layer &&
            first_number(source.checkpoint.catalogue.tensors[t].name) == *meaning.indices.layer)
            numbered.insert(*meaning.indices.layer);
    }
    return numbered;
}

/// Layers beyond config.json's number of layers must have tensors that only multi-token prediction layers have.
void check_predicting_layers(const Source& source, const Config& own) {
    const Reading& reading = source.reading;
    const auto count = Dims{*reading.family, framework, own}['L'];
    const Occurrences stored = occurrences_of(reading, source.checkpoint.catalogue.tensors, Role::weight);
    std::set<int> beyond, predicting;
    for (const auto& [name, occurrence] : stored) {
        if (occurrence.places.empty()) continue;
        const bool is_below = count && occurrence.places.begin()->layer < *count;
        for (const Place& place : occurrence.places) {
            if (!count || place.layer < *count) continue;
            beyond.insert(place.layer);
            if (!is_below) predicting.insert(place.layer);
        }
    }
    const std::set<int> numbered = beyond.empty() ? std::set<int>{} : numbered_layers(source);
    for (const int layer : beyond)
        if (!predicting.contains(layer) && numbered.contains(layer))
            throw failure("layer {} is stored, but config.json has {}{}", layer,
                          counted(static_cast<std::uint64_t>(*count), "layer"), remedy);
}

/// The edit distance between `a` and `b`: the least number of letters to change, add or remove.
std::size_t edits_between(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i + 1);
        for (std::size_t k = 0; k < b.size(); ++k)
            diagonal = std::exchange(
                row[k + 1], std::min({row[k + 1] + 1, row[k] + 1, diagonal + static_cast<std::size_t>(a[i] != b[k])}));
    }
    return row.back();
}

/// `word` without trailing digits, which distinguish versions.
std::string_view without_version(std::string_view word) {
    return word.substr(0, word.find_last_not_of("0123456789") + 1);
}

/// The known kind of layer that `word` misspells, or empty. Words of fewer than four letters are never misspellings.
std::string_view kind_meant(std::string_view word) {
    const std::size_t most_typos = std::min<std::size_t>(word.size() / 4, word.size() > 12 ? 2 : 1);
    const auto is_meant = [&](std::string_view kind) {
        return without_version(word) != without_version(kind) && edits_between(word, kind) <= most_typos;
    };
    const auto found = std::ranges::find_if(kinds_of_layers, is_meant);
    return found == kinds_of_layers.end() ? std::string_view{} : *found;
}

/// Throws Error for a word that misspells a known kind of layer. Other unknown words may come from a newer
/// transformers.
void check_words(std::string_view key, std::span<const ConfigValue> words, std::vector<std::string>& notes) {
    std::set<std::string> unknown;
    for (const ConfigValue& item : words) {
        const auto& word = std::get<std::string>(item);
        if (std::ranges::find(kinds_of_layers, word) != kinds_of_layers.end()) continue;
        if (const std::string_view meant = kind_meant(word); !meant.empty())
            throw failure(
                "config.json: unknown layer type '{}' in {}; did you mean '{}'? Correct config.json, or pass --set "
                "KEY=VALUE",
                word, key, meant);
        unknown.insert(word);
    }
    for (const std::string& word : unknown)
        notes.push_back(
            fmt::format("unknown layer type '{}' in {}; its tensors are read by the family's rules", word, key));
}

/// The lists of config.json must have one word for each layer, and may have one for each multi-token prediction layer.
void check_lists(const Source& source, const Config& own, std::vector<std::string>& notes) {
    const Dims dims{*source.reading.family, framework, own};
    const auto count = dims[source.reading.family->dims.contains('L') ? 'L' : 'l'];
    if (!count) return;
    const Index most = std::max(*count, dims['l'].value_or(*count));
    for (const std::string_view key : lists_of_layers) {
        const auto list = own.find(key);
        if (list == own.end() || std::holds_alternative<std::nullptr_t>(list->second)) continue;
        const auto items = integer(own, fmt::format("{}.count", key));
        const auto* text = std::get_if<std::string>(&list->second);
        const auto is_word = [](const ConfigValue& item) { return std::holds_alternative<std::string>(item); };
        const std::vector<ConfigValue> words = text ? split_list(*text) : std::vector<ConfigValue>{};
        if (!items || !text || !std::ranges::all_of(words, is_word))
            throw failure("config.json contradicts itself: {} must be a list of {}, but is {}{}", key,
                          counted(static_cast<std::uint64_t>(*count), "word"), value_text(list->second), remedy);
        if (key != "layers_block_type") check_words(key, words, notes);
        if (*items < *count || (*items > most && !holds(own, "num_nextn_predict_layers")))
            throw failure("config.json contradicts itself: {} has {}, but there are {}{}", key,
                          counted(static_cast<std::uint64_t>(*items), "item"),
                          counted(static_cast<std::uint64_t>(*count), "layer"), remedy);
    }
}

/// The settings that determine the axes of `meaning` on which `have` and `asked` differ.
std::set<std::string> settings_of_difference(const Reading& reading, const Meaning& meaning, const Shape& have,
                                             const Shape& asked) {
    std::set<std::string> found;
    const std::vector<Axis> axes = shape_axes(*reading.family, meaning);
    for (int k = 0; k < std::min({have.size(), asked.size(), static_cast<int>(axes.size())}); ++k) {
        if (have[k] == asked[k]) continue;
        for (const Token token : axes[static_cast<std::size_t>(k)]) {
            found.merge(size_settings(reading, token.letter));
            if (token.letter != '+') continue;
            for (const std::string& part : meaning.rule->expression.parts)
                for (const Axis& axis : reading.family->tensor(part).axes)
                    for (const Token own : axis)
                        if (own.letter != 'l') found.merge(size_settings(reading, own.letter));
        }
    }
    return found;
}

/// The weights must have the shapes that config.json implies.
void check_shapes(const Reading& reading, std::span<const Tensor> tensors) {
    if (const std::string remainder = remainder_in_sizes(reading); !remainder.empty())
        throw failure("config.json contradicts itself: {}{}", remainder, remedy);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = reading.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter || meaning.role != Role::weight ||
            has_varying_size(*reading.family, meaning) || fits_shape(reading, tensors[t], meaning))
            continue;
        const Shape asked = expected_shape(reading, tensors[t], meaning);
        const auto settings = settings_of_difference(reading, meaning, tensors[t].shape, asked);
        throw failure(
            "tensor '{}': shape {}, but config.json{} gives it {}{}", tensors[t].name, to_string(tensors[t].shape),
            settings.empty() ? "" : fmt::format(" ({})", fmt::join(settings, ", ")), to_string(asked), remedy);
    }
}

/// The reading of `source` without the zero biases that were added for Megatron.
Reading without_added(const Source& source) {
    Reading reading = source.reading;
    for (const std::uint32_t t : source.added_biases) reading.meanings[t].kind = Meaning::Kind::extra;
    return reading;
}

}  // namespace

Dialect names_of_transformers(const Reading& reading) {
    const Dialect* dialect = reading.family->dialect(framework);
    if (!dialect) throw failure("family '{}' has no hf names", reading.family->name);
    return with_state_names(StateNames::by_torch, *dialect);
}

void check_layer_count(const Source& source, const Config& own) {
    const Reading& reading = source.reading;
    const Dims dims{*reading.family, framework, own};
    const auto count = dims[reading.family->dims.contains('L') ? 'L' : 'l'];
    const int stored = layers(reading, source.checkpoint.catalogue.tensors);
    if (count && *count != stored)
        throw failure(
            "config.json has {}, but the checkpoint contains {}; complete the checkpoint, or pass --set {}={}",
            counted(static_cast<std::uint64_t>(*count), "layer"), counted(static_cast<std::uint64_t>(stored), "layer"),
            own.contains("n_layer") ? "n_layer" : "num_hidden_layers", stored);
}

void check_source_config(const Source& source, const std::string& own, const Config& config,
                         std::vector<std::string>& notes) {
    const Config written = parse_config_json(own);
    const std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
    check_layer_count(source, written);
    check_predicting_layers(source, written);
    check_lists(source, written, notes);
    const Reading reading = without_added(source);
    if (reading.dialect->name == framework) {
        if (!reading.unknown.empty()) return;  // the conversion reports them
        check_shapes(reading, tensors);
    }
    const std::string why_not = [&]() -> std::string {
        try {
            return config_mismatch(express(reading, tensors, names_of_transformers(reading), config, 1, {}), {},
                                   written);
        } catch (const Error& error) {
            return error.what();
        }
    }();
    if (why_not.empty()) return;
    throw failure("config.json does not match the tensors: {}{}", why_not,
                  reading.dialect->name == framework ? remedy : "; --dialect keep leaves the names as they are");
}

std::vector<DroppedCopy> drop_unknown_biases(Source& source, const std::string& own) {
    std::vector<DroppedCopy> dropped;
    Reading& reading = source.reading;
    const Family& family = *reading.family;
    if (has_sizes_of_shapes(family, framework)) return dropped;
    Places model;
    try {
        model = places_of(model_of(family, framework, parse_config_json(own), {}), std::numeric_limits<int>::max());
    } catch (const Error&) {  // check_source_config() reports what is wrong
        return dropped;
    }
    const auto is_unknown = [&](const std::string& part) {
        return part.ends_with("_bias") && family.present.contains(part) && !family.tensor(part).outer &&
               !model.contains(part);
    };
    for (std::uint32_t t = 0; t < reading.meanings.size(); ++t) {
        Meaning& meaning = reading.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter ||
            !std::ranges::all_of(meaning.rule->expression.parts, is_unknown))
            continue;
        meaning.kind = Meaning::Kind::extra;
        if (meaning.role == Role::weight || meaning.role == Role::master)
            dropped.push_back({.kept = t,
                               .dropped = t,
                               .remedy = "config.json describes a model without it; correct config.json, or pass "
                                         "--dialect keep to leave the names as they are",
                               .is_zero = true});
    }
    return dropped;
}

}  // namespace tpx::formats
