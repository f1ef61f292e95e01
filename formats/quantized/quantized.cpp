// SPDX-License-Identifier: Apache-2.0
#include "formats/quantized/quantized.hpp"

#include "formats/driver.hpp"
#include "formats/quantized/activation_scales.hpp"
#include "formats/quantized/part_values.hpp"
#include "formats/quantized/quantization_settings.hpp"
#include "formats/quantized/quantized_parts.hpp"
#include "formats/quantized/weight_parts.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/in_path.hpp"

#include <algorithm>
#include <set>

namespace tpx::formats {
namespace {

/// Adds a file of computed values, which are the part of weight `name` that `part` describes, and returns its piece.
Piece piece_of(Catalogue& catalogue, const std::string& name, const PartValues& part, std::uint32_t tensor) {
    auto coding = Coding::of_values(std::make_shared<const ScaledCodes>(part.scaled), fmt::format("tensor '{}'", name));
    const auto file = static_cast<std::uint32_t>(catalogue.files.size());
    const FileEntry entry{catalogue.files[part.scaled.codes.file].path, coding.size,
                          std::make_shared<const Coding>(std::move(coding))};
    catalogue.files.push_back(entry);
    return {.tensor = tensor, .file = file, .box = part.box, .strides = part.strides, .rank = part.rank};
}

/// Removes from `checkpoint` what `quantized` are stored as, and puts the weights in the place of their codes.
void replace(Checkpoint& checkpoint, const std::vector<QuantizedTensor>& quantized) {
    Catalogue& catalogue = checkpoint.catalogue;
    const Catalogue stored = catalogue;
    std::map<std::uint32_t, const QuantizedTensor*> weights;
    std::set<std::uint32_t> removed;
    for (const QuantizedTensor& tensor : quantized) {
        weights[tensor.codes] = &tensor;
        for (const Piece& piece : tensor.sources) removed.insert(piece.tensor);
    }
    for (const std::uint32_t t : activation_scales(checkpoint)) removed.insert(t);
    std::vector<Tensor> tensors;
    std::vector<std::uint32_t> numbers(catalogue.tensors.size(), 0);
    std::vector<Piece> pieces;
    std::size_t next = 0;  // piece
    for (std::uint32_t t = 0; t < catalogue.tensors.size(); ++t) {
        const auto number = static_cast<std::uint32_t>(tensors.size());
        const auto weight = weights.find(t);
        const bool kept = !removed.contains(t);
        for (; next < catalogue.pieces.size() && catalogue.pieces[next].tensor == t; ++next) {
            if (!kept) continue;
            pieces.push_back(catalogue.pieces[next]);
            pieces.back().tensor = number;
        }
        if (kept) tensors.push_back(std::move(catalogue.tensors[t]));
        if (weight == weights.end()) continue;
        const QuantizedTensor& own = *weight->second;
        in_context([&] { return fmt::format("tensor '{}'", own.name); },
                   [&] {
                       for (const PartValues& part : values_in(stored, own))
                           pieces.push_back(piece_of(catalogue, own.name, part, number));
                   });
        tensors.push_back({own.name, own.scaled.dtype, own.shape});
    }
    catalogue.tensors = std::move(tensors);
    catalogue.pieces = std::move(pieces);
}

/// Whether a tensor is in parts, whose values cannot be computed.
bool is_split(const Catalogue& catalogue) {
    return std::ranges::any_of(catalogue.pieces, [&](const Piece& piece) {
        return piece.box != whole(catalogue.tensors[piece.tensor].shape);
    });
}

}  // namespace

std::map<std::string, std::size_t> quantization_schemes(const Checkpoint& checkpoint) {
    std::map<std::string, std::size_t> schemes;
    for (const OpaqueTensor& tensor : checkpoint.opaque) ++schemes[tensor.type];
    const bool has_values = checkpoint.format->is_hugging_face && !is_split(checkpoint.catalogue);
    for (const QuantizedTensor& tensor : has_values ? quantized_tensors(checkpoint, {}) : placed_tensors(checkpoint))
        ++schemes[tensor.scheme];
    return schemes;
}

void dequantize(Source& source, std::optional<DType> dtype) {
    Checkpoint& checkpoint = source.checkpoint;
    if (!is_quantized(checkpoint)) return;
    const std::string path = checkpoint.catalogue.directory.string();
    in_path(path, [&] {
        if (const auto dequantize_blocks = checkpoint.format->dequantize)
            return dequantize_blocks(checkpoint, dtype.value_or(DType::f32));
        const auto quantized = quantized_tensors(checkpoint, dtype);
        replace(checkpoint, quantized);
        checkpoint.config_json = without_quantization(checkpoint.config_json, quantized[0].scaled.dtype);
    });
    // Both belong to the reading, which is repeated below.
    checkpoint.roles.clear();
    checkpoint.parameters.clear();
    Config config = source.reading.config;
    std::erase_if(config, [](const auto& entry) { return is_quantization_setting(entry.first); });
    std::erase_if(checkpoint.config, [](const auto& entry) { return is_quantization_setting(entry.first); });
    in_path(path, [&] { source.reading = read_by_names(checkpoint, source.families, config); });
    source.layout = detect_layout(checkpoint.catalogue, source.reading, cutting_of(checkpoint.format));
    source.has_computed_values = true;
}

std::string dequantization_note(const Source& source, const Target& target) {
    if (target.dtype) return "";
    std::size_t count = 0;
    std::string schemes;
    in_path(source.checkpoint.catalogue.directory.string(), [&] {
        for (const auto& [scheme, tensors] : quantization_schemes(source.checkpoint)) {
            count += tensors;
            schemes += fmt::format("{}{}", schemes.empty() ? "" : "; ", scheme);
        }
    });
    const bool is_only_split = target.format == source.checkpoint.format && target.dialect.empty();
    return fmt::format("dequantized {} ({}): {}", counted(count, "weight"), schemes,
                       is_only_split ? why_codes_stay_whole(source, target) + "; --to tp=1 keeps codes and scales"
                                     : "the new names are of plain weights, which codes and scales are not");
}

bool has_same_tensors(const Checkpoint& a, const Checkpoint& b) {
    const auto types = [](const Checkpoint& checkpoint) {
        std::set<std::pair<std::string_view, std::string_view>> all;
        for (const Tensor& tensor : checkpoint.catalogue.tensors) all.emplace(tensor.name, name(tensor.dtype));
        for (const OpaqueTensor& tensor : checkpoint.opaque) all.emplace(tensor.name, tensor.type);
        return all;
    };
    return (!is_quantized(a) && !is_quantized(b)) || types(a) == types(b);
}

bool needs_values(const Source& source, const Target& target) {
    if (!is_quantized(source.checkpoint)) return false;
    if (target.dtype || !source.checkpoint.opaque.empty()) return true;
    if (target.dialect == "keep") return false;
    if (!target.dialect.empty() || target.format != source.checkpoint.format) return true;
    if (source.layout && source.layout->tp == target.layout.tp && source.layout->pp == target.layout.pp &&
        source.layout->ep == target.layout.ep && expert_tp(*source.layout) == expert_tp(target.layout))
        return false;
    return !why_codes_stay_whole(source, target).empty();
}

}  // namespace tpx::formats
