// SPDX-License-Identifier: Apache-2.0
#include "formats/missing_parts.hpp"

#include "formats/deepspeed/missing_weights.hpp"
#include "formats/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/adapter_family.hpp"
#include "lib/layout/dims.hpp"
#include "lib/layout/layer_ties.hpp"
#include "lib/layout/model.hpp"
#include "lib/layout/occurrences.hpp"
#include "lib/layout/places.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace tpx::formats {
namespace {

/// "1, 4 to 7".
std::string ranges_text(const std::vector<Index>& numbers) {
    std::vector<std::string> texts;
    for (std::size_t begin = 0; begin < numbers.size();) {
        std::size_t end = begin + 1;
        while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
        texts.push_back(end == begin + 1 ? fmt::format("{}", numbers[begin])
                                         : fmt::format("{} to {}", numbers[begin], numbers[end - 1]));
        begin = end;
    }
    return fmt::format("{}", fmt::join(texts, ", "));
}

/// Those of the numbers below `count` that are not in `present`, as a line; nothing when there are none.
std::optional<std::string> absent_layers(const std::set<Index>& present, Index count, bool configured) {
    constexpr Index most = 1'000'000;  // of layers that a configuration can count
    if (count > most) return fmt::format("layers: the configuration has {}, which no model has", count);
    std::vector<Index> absent;
    for (Index layer = 0; layer < count; ++layer)
        if (!present.contains(layer)) absent.push_back(layer);
    if (absent.empty()) return std::nullopt;
    return fmt::format("layer{} {}: no tensor is stored; {} {} layers", absent.size() == 1 ? "" : "s",
                       ranges_text(absent), configured ? "the configuration has" : "the tensors are of", count);
}

/// The state that stands for the model: weights, or masters where no weights are stored beside them.
Occurrences stored_model(const Source& source) {
    for (const Role role : {Role::weight, Role::master}) {
        Occurrences found = occurrences_of(source.reading, source.checkpoint.catalogue.tensors, role);
        if (!found.empty()) return found;
    }
    return {};
}

/// Where the rules of a family say which tensors each layer has.
class FamilyCheck {
public:
    explicit FamilyCheck(const Source& source) : source_{source}, stored_{stored_model(source)} {}

    std::vector<std::string> run() {
        if (stored_.empty()) return {};
        const Family& family = *source_.reading.family;
        // A decoder beside an encoder has layers of its own, whose tensors are optional.
        for (const auto& [name, occurrence] : stored_)
            for (const Place& place : occurrence.places)
                if (place.layer >= 0 && !family.tensor(name).optional) layers_.insert(place.layer);
        const auto configured = source_.reading.dims[family.dims.contains('L') ? 'L' : 'l'];
        const Index last = layers_.empty() ? 0 : *layers_.rbegin() + 1;
        if (auto line = absent_layers(layers_, configured.value_or(last), configured.has_value()))
            lines_.push_back(*std::move(line));
        for (const Index layer : layers_)
            if (layer >= source_.reading.dims['l'].value_or(last) && !is_for_prediction(layer))
                lines_.push_back(
                    fmt::format("layer {}: the configuration has {} layers", layer, configured.value_or(last)));
        for (const auto& [name, tensor] : family.tensors) check(name, tensor);
        if (lines_.empty()) check_configured();
        check_masters();
        return std::move(lines_);
    }

private:
    void check(const std::string& name, const CanonicalTensor& tensor) {
        const auto found = stored_.find(name);
        const bool tied_in_layers = !tensor.tie.empty() && tensor.has('l');
        if (found == stored_.end() && !tied_in_layers) {
            if (!tensor.tie.empty() && stored_.contains(tensor.tie) && has_output_layer())
                lines_.push_back(fmt::format("'{}': no tensor is stored; the configuration does not tie it to '{}'",
                                             name, tensor.tie));
            return;
        }
        if (!tensor.has('l')) return;
        std::vector<Index> without;
        for (const Index layer : layers_)
            if (is_required(tensor, layer) && (found == stored_.end() || !has_layer(found->second, layer)))
                without.push_back(layer);
        if (!without.empty())
            lines_.push_back(fmt::format("layer{} {}: no tensor '{}' is stored", without.size() == 1 ? "" : "s",
                                         ranges_text(without), name));
        if (tensor.ep != 0 && found != stored_.end()) check_experts(name, found->second);
    }

    /// Whether a layer must have a tensor. One that may be tied to another of its layer is optional, but not in layers
    /// where [present] says that the model has it.
    bool is_required(const CanonicalTensor& tensor, Index layer) const {
        if (!tensor.optional) return true;
        const Reading& reading = source_.reading;
        return !tensor.tie.empty() &&
               is_present(reading, reading.dialect->name, stored_, tensor.name, static_cast<int>(layer)) == true;
    }

    /// Whether a layer has tensors that only layers for multi-token prediction have.
    bool is_for_prediction(Index layer) const {
        return std::ranges::any_of(stored_, [&](const auto& entry) {
            const auto conditions = source_.reading.family->present.find(entry.first);
            if (conditions == source_.reading.family->present.end()) return false;
            const auto any = conditions->second.find("any");
            return any != conditions->second.end() && any->second == "l >= L" && has_layer(entry.second, layer);
        });
    }

    /// Where each tensor of layers is in the model that a config.json describes. Empty if that is unknown.
    Places configured_places() const {
        const Reading& reading = source_.reading;
        const std::string& dialect = reading.dialect->name;
        if (dialect != "hf" || !reading.config.contains("model_type") || has_sizes_of_shapes(*reading.family, dialect))
            return {};
        try {
            const ModelState model = model_of(*reading.family, dialect, reading.config, {});
            return places_of(model, model.layers);
        } catch (const Error&) {
            return {};
        }
    }

    /// A layer must have the optional tensors that [present] gives it and that other layers store. A layer with tensors
    /// that [present] gives to other layers is of another kind than the rules conclude from the configuration.
    void check_configured() {
        const Places model = configured_places();
        if (model.empty()) return;
        const auto has_in = [](const std::set<Place>& places, Index layer) {
            const auto first = places.lower_bound({static_cast<int>(layer), -1});
            return first != places.end() && first->layer == layer;
        };
        std::set<Index> other_kind;
        for (const auto& [name, occurrence] : stored_) {
            const auto expected = model.find(name);
            for (const Place& place : occurrence.places)
                if (expected == model.end() || !has_in(expected->second, place.layer)) other_kind.insert(place.layer);
        }
        for (const auto& [name, places] : model) {
            const auto found = stored_.find(name);
            if (found == stored_.end() || !source_.reading.family->tensor(name).optional) continue;
            std::vector<Index> without;
            for (const Index layer : layers_)
                if (has_in(places, layer) && !has_layer(found->second, layer) && !other_kind.contains(layer))
                    without.push_back(layer);
            if (!without.empty())
                lines_.push_back(fmt::format("layer{} {}: no tensor '{}' is stored, but config.json asks for it",
                                             without.size() == 1 ? "" : "s", ranges_text(without), name));
        }
    }

    /// The rules may not say which tensors a model has; a tensor that has a master has a weight, too.
    void check_masters() {
        if (is_deepspeed(source_.checkpoint.format)) return;  // see lost_weights()
        const auto& tensors = source_.checkpoint.catalogue.tensors;
        const Occurrences weights = occurrences_of(source_.reading, tensors, Role::weight);
        if (weights.empty()) return;
        for (const auto& [name, master] : occurrences_of(source_.reading, tensors, Role::master))
            if (!weights.contains(name))
                lines_.push_back(
                    fmt::format("tensor '{}': only its master weight '{}' is stored", name, master.stored));
    }

    static bool has_layer(const Occurrence& occurrence, Index layer) {
        const auto first = occurrence.places.lower_bound({static_cast<int>(layer), -1});
        return first != occurrence.places.end() && first->layer == layer;
    }

    /// A layer with one expert must have all of them.
    void check_experts(const std::string& name, const Occurrence& occurrence) {
        const auto experts = static_cast<int>(source_.reading.dims['e'].value_or(0));
        for (const Index layer : layers_) {
            if (!has_layer(occurrence, layer)) continue;
            std::vector<Index> without;
            for (int expert = 0; expert < experts; ++expert)
                if (!occurrence.places.contains({static_cast<int>(layer), expert})) without.push_back(expert);
            if (!without.empty())
                lines_.push_back(fmt::format("layer {}: no tensor '{}' of expert{} {} is stored", layer, name,
                                             without.size() == 1 ? "" : "s", ranges_text(without)));
        }
    }

    /// Whether the configuration is that of a model with an output layer of its own.
    bool has_output_layer() const {
        const Reading& reading = source_.reading;
        if (reading.config.empty() || reading.tied) return false;
        return reading.source() == "mcore" ? reading.config.contains("untie_embeddings_and_output_weights")
                                           : source_.checkpoint.config_json.find("ForCausalLM") != std::string::npos;
    }

    const Source& source_;
    Occurrences stored_;
    std::set<Index> layers_;
    std::vector<std::string> lines_;
};

/// How many layers a configuration without rules counts.
std::optional<Index> configured_layers(const Config& config) {
    for (const auto& [key, value] : config) {
        const bool counts = key == "num_hidden_layers" || key == "num_layers" || key == "n_layer" ||
                            (key.ends_with(".block_count") && !key.starts_with("clip."));
        const auto* number = std::get_if<std::int64_t>(&value);
        if (counts && number != nullptr) return *number;
    }
    return std::nullopt;
}

/// What precedes the number of a layer in a tensor's name, and the number.
std::optional<std::pair<std::string_view, Index>> layer_in(std::string_view name) {
    constexpr std::array<std::string_view, 6> words{"layers", "layer", "h", "blocks", "block", "blk"};
    for (std::size_t begin = 0; begin < name.size();) {
        const std::size_t dot = std::min(name.find('.', begin), name.size());
        const std::string_view word = name.substr(begin, dot - begin);
        if (std::ranges::find(words, word) != words.end() && dot < name.size()) {
            const std::string_view rest = name.substr(dot + 1);
            Index number = 0;
            const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
            const bool whole = error == std::errc{} && end != rest.data() + rest.size() && *end == '.';
            if (whole && number >= 0) return std::pair{name.substr(0, dot), number};
        }
        begin = dot + 1;
    }
    return std::nullopt;
}

/// Where no rules know the model: the stack of layers with most tensors must have all that the configuration counts.
std::vector<std::string> by_numbers(const Source& source) {
    std::vector<std::string> lines;
    const std::string& why = source.reading.why_not;
    if (!source.reading.config.empty() && why.find(" lacks tensor '") != why.npos) lines.push_back(why);
    const auto count = configured_layers(source.reading.config);
    if (!count) return lines;
    std::map<std::string_view, std::pair<std::size_t, std::set<Index>>> stacks;
    const auto add = [&](std::string_view name) {
        const auto found = layer_in(name);
        if (!found) return;
        auto& [tensors, layers] = stacks[found->first];
        ++tensors;
        layers.insert(found->second);
    };
    for (const Tensor& tensor : source.checkpoint.catalogue.tensors) add(tensor.name);
    for (const Quantised& tensor : source.checkpoint.quantised) add(tensor.name);
    const auto largest = std::ranges::max_element(stacks, {}, [](const auto& stack) { return stack.second.first; });
    if (largest == stacks.end() || static_cast<Index>(largest->second.second.size()) >= *count) return lines;
    if (auto line = absent_layers(largest->second.second, *count, true)) lines.push_back(*std::move(line));
    return lines;
}

}  // namespace

std::vector<std::string> missing_parts(const Source& source) {
    // An adapter may be for any of the layers of its base.
    if (source.reading.family != nullptr && is_of_adapters(*source.reading.family)) return {};
    std::vector<std::string> lines = source.reading.family != nullptr ? FamilyCheck{source}.run() : by_numbers(source);
    for (const std::string& parameter : lost_weights(source.checkpoint))
        lines.push_back(fmt::format("tensor '{}': only its master weight is stored", parameter));
    return lines;
}

void check_whole_model(const Source& source, const Target& target) {
    if (target.format != Format::safetensors || target.dialect == "keep" || source.reading.family == nullptr) return;
    if (is_of_adapters(*source.reading.family)) return;
    // Weights that DeepSpeed's files lack are rounded from their masters.
    const std::vector<std::string> missing = FamilyCheck{source}.run();
    if (missing.empty()) return;
    throw failure(
        "the model is incomplete: {}{}; restore the missing tensors, or pass --dialect keep to copy the others",
        missing[0], missing.size() > 1 ? fmt::format(" (and {} more)", missing.size() - 1) : "");
}

}  // namespace tpx::formats
