// SPDX-License-Identifier: Apache-2.0
#include "formats/quantized/weight_parts.hpp"

#include "formats/quantized/activation_scales.hpp"
#include "formats/quantized/quantization_settings.hpp"
#include "formats/quantized/quantized.hpp"
#include "formats/quantized/quantized_parts.hpp"
#include "formats/quantized/stored_parts.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/beyond_rules.hpp"
#include "lib/layout/shard_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace tpx::formats {
namespace {

/// Whether the codes are stored as an unquantized weight would be, but for their type.
bool is_like_weight(const Tensor& codes, const QuantizedTensor& weight) {
    return codes.name == weight.name && codes.shape == weight.shape;
}

/// What is stored, with weights instead of their codes and scales.
Checkpoint with_weights(const Checkpoint& checkpoint, const std::vector<QuantizedTensor>& quantized) {
    Checkpoint values{.format = checkpoint.format, .variant = checkpoint.variant};
    values.catalogue.directory = checkpoint.catalogue.directory;
    values.config = checkpoint.config;
    std::map<std::uint32_t, const QuantizedTensor*> weights;
    std::set<std::uint32_t> removed;
    for (const QuantizedTensor& weight : quantized) {
        weights[weight.codes] = &weight;
        for (const Piece& piece : weight.sources) removed.insert(piece.tensor);
    }
    for (const std::uint32_t t : activation_scales(checkpoint)) removed.insert(t);
    for (std::uint32_t t = 0; t < checkpoint.catalogue.tensors.size(); ++t) {
        const auto weight = weights.find(t);
        if (weight == weights.end() && removed.contains(t)) continue;
        if (!checkpoint.roles.empty()) values.roles.push_back(checkpoint.roles[t]);
        if (!checkpoint.parameters.empty()) values.parameters.push_back(checkpoint.parameters[t]);
        const Tensor& stored = checkpoint.catalogue.tensors[t];
        values.catalogue.tensors.push_back(
            weight == weights.end()
                ? stored
                : Tensor{weight->second->name, weight->second->scaled.dtype, weight->second->shape});
    }
    return values;
}

/// The name of the module that has `name`, with its dot; empty: none.
std::string_view enclosing_module(std::string_view name) {
    if (name.ends_with('.')) name.remove_suffix(1);
    const std::size_t dot = name.rfind('.');
    return dot == name.npos ? std::string_view{} : name.substr(0, dot + 1);
}

/// Relates codes and scales to the weights of a reading of values.
class Relation {
public:
    Relation(const Checkpoint& checkpoint, const Checkpoint& values, const Reading& reading)
        : checkpoint_{checkpoint},
          weights_{values.catalogue.tensors},
          reading_{reading},
          meanings_(checkpoint.catalogue.tensors.size()) {
        for (std::size_t v = 0; v < weights_.size(); ++v) numbers_[weights_[v].name] = v;
    }

    /// The meaning of each stored tensor.
    std::vector<Meaning> run(const std::vector<QuantizedTensor>& quantized) {
        const std::vector<Tensor>& tensors = checkpoint_.catalogue.tensors;
        std::set<std::uint32_t> parts;
        for (const QuantizedTensor& weight : quantized) {
            for (const Piece& piece : weight.sources) parts.insert(piece.tensor);
            if (is_like_weight(tensors[weight.codes], weight)) parts.erase(weight.codes);
            const bool has_numbers = has_groups(checkpoint_.catalogue, weight);
            for (auto& [t, axes] : stored_parts(checkpoint_.catalogue, weight, has_numbers))
                relate(t, weight.name, std::move(axes), !has_numbers);
        }
        for (const std::uint32_t t : activation_scales(checkpoint_)) {
            parts.insert(t);
            const Shape& shape = tensors[t].shape;
            if (volume(shape) == 1)
                relate(t, weight_near(tensors[t].name), std::vector<StoredAxis>(static_cast<std::size_t>(shape.size())),
                       true);
        }
        for (std::uint32_t t = 0; t < tensors.size(); ++t) {
            const auto found = numbers_.find(tensors[t].name);
            if (!parts.contains(t) && found != numbers_.end()) meanings_[t] = reading_.meanings[found->second];
        }
        return std::move(meanings_);
    }

private:
    /// A weight of the innermost module that has an activation's scale and weights, if these are all of one layer and
    /// one expert; empty: there is none. KV caches have scales, but no weight of their own.
    std::string weight_near(std::string_view scale) const {
        for (std::string_view module = enclosing_module(scale); !module.empty(); module = enclosing_module(module)) {
            const Meaning* near = nullptr;
            std::string name;
            for (auto at = numbers_.lower_bound(module); at != numbers_.end() && at->first.starts_with(module); ++at) {
                const Meaning& meaning = reading_.meanings[at->second];
                if (meaning.kind != Meaning::Kind::parameter) continue;
                if (near != nullptr &&
                    (near->indices.layer != meaning.indices.layer || near->indices.expert != meaning.indices.expert))
                    return {};
                near = &meaning;
                name = at->first;
            }
            if (near != nullptr) return name;
        }
        return {};
    }

    void relate(std::uint32_t t, const std::string& weight, std::vector<StoredAxis> axes, bool can_split) {
        const auto found = numbers_.find(weight);
        if (found == numbers_.end() || reading_.meanings[found->second].kind != Meaning::Kind::parameter) return;
        meanings_[t].weight_part = std::make_shared<const WeightPart>(
            WeightPart{weights_[found->second], reading_.meanings[found->second], std::move(axes), can_split});
    }

    const Checkpoint& checkpoint_;
    const std::vector<Tensor>& weights_;
    const Reading& reading_;
    std::map<std::string_view, std::size_t> numbers_;  // of weights
    std::vector<Meaning> meanings_;
};

void relate(Source& source, const std::vector<QuantizedTensor>& quantized) {
    Checkpoint values = with_weights(source.checkpoint, quantized);
    Config config = source.reading.config;
    std::erase_if(config, [](const auto& entry) { return is_quantization_setting(entry.first); });
    Reading reading = read_by_names(values, source.families, config);
    if (!reading.family) source.reading.why_not = reading.why_not;
    if (!reading.family || values.roles.empty() != source.checkpoint.roles.empty()) return;
    reading.config = source.reading.config;
    reading.meanings = Relation{source.checkpoint, values, reading}.run(quantized);
    reading.unknown.clear();
    for (std::uint32_t t = 0; t < reading.meanings.size(); ++t)
        if (reading.meanings[t].kind == Meaning::Kind::unknown) reading.unknown.push_back(t);
    source.reading = std::move(reading);
}

/// Why a stored part of a weight cannot be split as `map` does; empty if it can.
std::string why_part_stays_whole(const ShardMap& map, const Reading& reading, const Tensor& tensor,
                                 const Meaning& meaning) {
    const WeightPart& part = *meaning.weight_part;
    try {
        const TensorForm form = form_of(reading, tensor, meaning);
        if (!part.can_split && form.tp_axis >= 0 && grid_of(map.layout(), form.experts > 0).part.size > 1 &&
            part.axes[static_cast<std::size_t>(form.tp_axis)].axis == axis_of_groups(part.weight.shape))
            return fmt::format("tensor '{}': its g_idx counts groups from the first of the whole weight", tensor.name);
        in_context([&] { return fmt::format("tensor '{}'", tensor.name); }, [&] { map.cuts(form, Sharing::none); });
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

}  // namespace

void read_weight_parts(Source& source) {
    try {
        const std::vector<QuantizedTensor> quantized = placed_tensors(source.checkpoint);
        if (!quantized.empty()) relate(source, quantized);
    } catch (const Error&) {  // dequantize() says what is wrong
    }
}

std::string why_codes_stay_whole(const Source& source, const Target& target) {
    const Reading& reading = source.reading;
    const std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
    if (!reading.family) return "no family says how its weights are split";
    const int count = layers(reading, tensors);
    const std::vector<int> stages = target.layout.pp > 1 ? stages_of_layers(target.layout, count) : std::vector<int>{};
    const ShardMap map{target.layout, cutting_of(target.format), stages};
    for (const std::uint32_t t : reading.unknown) {
        const Meaning& meaning = reading.meanings[t];
        if (!meaning.weight_part) {
            if (reading.dialect->is_whole(tensors[t].name) && !is_quantized_weight_part(tensors[t].name)) continue;
            const bool is_on_all = target.layout.pp == 1 && target.layout.ep == 1;
            if (volume(tensors[t].shape) == 1 && is_on_all) continue;
            if (volume(tensors[t].shape) == 1)
                return fmt::format("which layer or expert has '{}' is unknown", tensors[t].name);
            return fmt::format("how '{}' is split is unknown", tensors[t].name);
        }
        if (std::string why = why_part_stays_whole(map, reading, tensors[t], meaning); !why.empty()) return why;
    }
    return {};
}

}  // namespace tpx::formats
