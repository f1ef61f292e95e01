// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/missing_parts.hpp"

#include "formats/convert/layer_kind_mismatch.hpp"
#include "formats/convert/missing_weights.hpp"
#include "formats/convert/numbered_layers.hpp"
#include "formats/driver.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/adapter_family.hpp"
#include "lib/layout/dims.hpp"
#include "lib/layout/layer_ties.hpp"
#include "lib/layout/model_state.hpp"
#include "lib/layout/occurrences.hpp"
#include "lib/layout/places.hpp"
#include "lib/layout/stored_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace tpx::formats {
namespace {

/// Where the model's tensors are stored: weights, or masters if no weights are stored.
Occurrences stored_model(const Source& source) {
    for (const Role role : {Role::weight, Role::master}) {
        Occurrences found = occurrences_of(source.reading, source.checkpoint.catalogue.tensors, role);
        if (!found.empty()) return found;
    }
    return {};
}

/// Finds missing tensors of a model whose family's rules define the tensors of each layer.
class FamilyCheck {
public:
    explicit FamilyCheck(const Source& source) : source_{source}, stored_{stored_model(source)} {}

    std::vector<std::string> run() {
        if (stored_.empty()) return {};
        const Family& family = *source_.reading.family;
        // In a model with an encoder, the decoder's layers are numbered separately and their tensors are optional.
        for (const auto& [name, occurrence] : stored_)
            for (const Place& place : occurrence.places)
                if (place.layer >= 0 && !family.tensor(name).optional) layers_.insert(place.layer);
        const auto configured = source_.reading.dims[family.dims.contains('L') ? 'L' : 'l'];
        const Index last = layers_.empty() ? 0 : *layers_.rbegin() + 1;
        if (auto line = absent_layers(layers_, configured.value_or(last), configured.has_value()))
            lines_.push_back(*std::move(line));
        if (configured) find_beyond(*configured);
        for (const auto& [name, tensor] : family.tensors) check(name, tensor);
        if (lines_.empty() && contradiction_.empty()) check_configured();
        check_masters();
        return std::move(lines_);
    }

    /// A line about layers that exceed the configuration's number of layers, or differ in kind from its description; ""
    /// if there are none.
    const std::string& contradiction() const { return contradiction_; }

private:
    /// Sets contradiction_ if layers exceed the `configured` ones and those for multi-token prediction.
    void find_beyond(Index configured) {
        const Reading& reading = source_.reading;
        const Index limit = reading.dims['l'].value_or(configured);
        std::vector<Index> beyond;
        for (const Index layer : layers_)
            if (layer >= limit && !is_for_prediction(layer)) beyond.push_back(layer);
        if (beyond.empty()) return;
        const std::string key = key_of_layers();
        contradiction_ = fmt::format(
            "{} {} stored, but {}{}", layers_text(beyond), beyond.size() == 1 ? "is" : "are",
            key.empty() ? fmt::format("the configuration has {}", counted(configured, "layer"))
                        : fmt::format("{} is {}", key, configured),
            limit > configured ? fmt::format(" and multi-token prediction has {}", counted(limit - configured, "layer"))
                               : "");
    }

    /// The configuration key with the number of layers; "" if the configuration has none of the rules' keys.
    std::string key_of_layers() const {
        const Reading& reading = source_.reading;
        const auto formulas = reading.family->dims.find(reading.family->dims.contains('L') ? 'L' : 'l');
        const std::string* formula =
            formulas == reading.family->dims.end() ? nullptr : formula_for(formulas->second, reading.source());
        constexpr std::string_view separator = " | ";
        for (std::string_view rest = formula ? std::string_view{*formula} : ""; !rest.empty();) {
            const std::string_view key = rest.substr(0, rest.find(separator));
            if (reading.config.contains(key)) return std::string{key};
            rest.remove_prefix(std::min(key.size() + separator.size(), rest.size()));
        }
        return "";
    }

    void check(const std::string& name, const CanonicalTensor& tensor) {
        const auto found = stored_.find(name);
        const bool may_be_required = tensor.has('l') && (!tensor.tie.empty() || !experts_with(name).empty());
        if (found == stored_.end() && !may_be_required) {
            if (!tensor.tie.empty() && stored_.contains(tensor.tie) && has_output_layer())
                lines_.push_back(fmt::format("'{}': no tensor is stored; the configuration does not tie it to '{}'",
                                             stored_name(source_.reading, name, {}),
                                             stored_name(source_.reading, tensor.tie, {})));
            return;
        }
        if (!tensor.has('l')) return;
        std::vector<Index> without;
        for (const Index layer : layers_)
            if (is_required(tensor, layer) && (found == stored_.end() || !has_layer(found->second.places, layer)))
                without.push_back(layer);
        if (!without.empty())
            lines_.push_back(
                fmt::format("{}: no tensor '{}' is stored", layers_text(without), stored_in(name, without[0])));
        if (tensor.ep != 0 && found != stored_.end()) check_experts(name, found->second);
    }

    /// Whether a layer must have a tensor. An optional tensor is required if it may be tied to another tensor of its
    /// layer and [present] says that the model has it there, or if it is a router and the layer stores experts.
    bool is_required(const CanonicalTensor& tensor, Index layer) const {
        if (!tensor.optional) return true;
        if (!tensor.tie.empty() && may_have(tensor.name, layer) == true) return true;
        return std::ranges::any_of(experts_with(tensor.name),
                                   [&](const Occurrence* experts) { return has_layer(experts->places, layer); });
    }

    /// The stored expert tensors whose condition in [present] is `name`, a router.
    std::vector<const Occurrence*> experts_with(const std::string& name) const {
        const Reading& reading = source_.reading;
        std::vector<const Occurrence*> found;
        for (const auto& [stored, occurrence] : stored_) {
            const auto conditions = reading.family->present.find(stored);
            if (reading.family->tensor(stored).ep == 0 || conditions == reading.family->present.end()) continue;
            const std::string* condition = formula_for(conditions->second, reading.dialect->name);
            if (condition != nullptr && *condition == name && reading.family->tensor(name).ep == 0)
                found.push_back(&occurrence);
        }
        return found;
    }

    /// Whether [present] says that the model has a tensor in a layer; unset if unknown.
    std::optional<bool> may_have(const std::string& name, Index layer) const {
        return is_present(source_.reading, source_.reading.dialect->name, stored_, name, static_cast<int>(layer));
    }

    /// Whether a layer has tensors that only multi-token prediction layers have, that is, no layer below L.
    bool is_for_prediction(Index layer) const {
        const auto is_absent_below = [&](const std::string& name) {
            return std::ranges::all_of(layers_, [&](Index other) {
                return other >= source_.reading.dims['L'].value_or(0) || may_have(name, other) == false;
            });
        };
        return source_.reading.dims['L'] && std::ranges::any_of(stored_, [&](const auto& entry) {
                   return has_layer(entry.second.places, layer) && may_have(entry.first, layer) == true &&
                          is_absent_below(entry.first);
               });
    }

    /// The layers of each tensor in the model that config.json describes. Empty if unknown.
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

    /// A layer must have an optional tensor that the configured model has in it if any layer stores this tensor. A
    /// layer that stores a tensor the configured model does not have there is of another kind than the configuration
    /// describes.
    void check_configured() {
        const Places model = configured_places();
        if (model.empty()) return;
        contradiction_ = layer_kind_mismatch(source_.reading, stored_, model);
        std::set<Index> other_kind;
        for (const auto& [name, occurrence] : stored_) {
            const auto expected = model.find(name);
            for (const Place& place : occurrence.places)
                if (expected == model.end() || !has_layer(expected->second, place.layer))
                    other_kind.insert(place.layer);
        }
        for (const auto& [name, places] : model) {
            const auto found = stored_.find(name);
            if (found == stored_.end() || !source_.reading.family->tensor(name).optional) continue;
            std::vector<Index> without;
            for (const Index layer : layers_)
                if (has_layer(places, layer) && !has_layer(found->second.places, layer) && !other_kind.contains(layer))
                    without.push_back(layer);
            if (!without.empty())
                lines_.push_back(fmt::format("{}: no tensor '{}' is stored, but config.json requires it",
                                             layers_text(without), stored_in(name, without[0])));
        }
    }

    /// Rules may not define all tensors of a model, but a tensor with a master must also have a weight.
    void check_masters() {
        if (source_.checkpoint.format->has_param_groups) return;  // see lost_weights()
        const auto& tensors = source_.checkpoint.catalogue.tensors;
        const Occurrences weights = occurrences_of(source_.reading, tensors, Role::weight);
        if (weights.empty()) return;
        for (const auto& [name, master] : occurrences_of(source_.reading, tensors, Role::master))
            if (!weights.contains(name))
                lines_.push_back(
                    fmt::format("tensor '{}': only its master weight '{}' is stored", name, master.stored));
    }

    /// A layer with any expert must have all experts.
    void check_experts(const std::string& name, const Occurrence& occurrence) {
        const auto experts = static_cast<int>(source_.reading.dims['e'].value_or(0));
        for (const Index layer : layers_) {
            if (!has_layer(occurrence.places, layer)) continue;
            std::vector<Index> without;
            for (int expert = 0; expert < experts; ++expert)
                if (!occurrence.places.contains({static_cast<int>(layer), expert})) without.push_back(expert);
            if (!without.empty())
                lines_.push_back(fmt::format("layer {}: no tensor '{}' of expert{} {} is stored", layer,
                                             stored_in(name, layer, without[0]), without.size() == 1 ? "" : "s",
                                             ranges_text(without)));
        }
    }

    /// The stored name of a tensor in a layer; for an expert tensor, that of `expert`.
    std::string stored_in(const std::string& name, Index layer, Index expert = 0) const {
        const bool of_experts = source_.reading.family->tensor(name).ep != 0;
        return stored_name(
            source_.reading, name,
            {static_cast<int>(layer), of_experts ? std::optional{static_cast<int>(expert)} : std::nullopt});
    }

    /// Whether the configuration describes a model with a separate output layer.
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
    std::string contradiction_;
};

}  // namespace

std::vector<std::string> missing_parts(const Source& source) {
    // An adapter may cover any subset of its base model's layers.
    if (source.reading.family != nullptr && is_adapter_family(*source.reading.family)) return {};
    std::vector<std::string> lines;
    if (source.reading.family != nullptr) {
        FamilyCheck check{source};
        lines = check.run();
        if (!check.contradiction().empty()) lines.push_back(check.contradiction());
    } else {
        lines = missing_numbered_layers(source);
    }
    for (const std::string& parameter : lost_weights(source.checkpoint))
        lines.push_back(fmt::format("tensor '{}': only its master weight is stored", parameter));
    return lines;
}

void check_whole_model(const Source& source, const Target& target) {
    if (!target.format->is_hugging_face || target.dialect == "keep" || source.reading.family == nullptr) return;
    if (is_adapter_family(*source.reading.family)) return;
    // Ignores lost_weights(): weights that DeepSpeed's files lack are rounded from their masters.
    FamilyCheck check{source};
    const std::vector<std::string> missing = check.run();
    if (!check.contradiction().empty())
        throw failure("{}; correct {}, or pass --dialect keep", check.contradiction(),
                      source.reading.source() == "mcore" ? "the configuration" : "config.json");
    if (missing.empty()) return;
    throw failure(
        "the model is incomplete: {}{}; restore the missing tensors, or pass --dialect keep to copy the others",
        missing[0], missing.size() > 1 ? fmt::format(" (and {} more)", missing.size() - 1) : "");
}

}  // namespace tpx::formats
