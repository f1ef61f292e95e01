// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspection.hpp"

#include "cmd/inspect/inspect_virtual_nodes.hpp"
#include "formats/convert/rank_holdings.hpp"
#include "formats/quantized/activation_scales.hpp"
#include "formats/quantized/quantized.hpp"
#include "formats/quantized/quantized_parts.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/adapter_family.hpp"
#include "lib/layout/beyond_rules.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

std::uint64_t bytes_of(const Tensor& tensor) {
    return static_cast<std::uint64_t>(volume(tensor.shape)) * info(tensor.dtype).bits / 8;
}

/// The number of tensors with each quantization scheme. Gives codes and scales the role "quantized". If scales are
/// invalid, adds a note only: the values may not be needed.
std::map<std::string, std::size_t> read_quantization(formats::Source& source) {
    formats::Checkpoint& checkpoint = source.checkpoint;
    const bool has_parts = std::ranges::any_of(source.reading.meanings,
                                               [](const Meaning& meaning) { return meaning.weight_part != nullptr; });
    if (!has_parts && !formats::is_quantized(checkpoint)) return {};
    try {
        std::map<std::string, std::size_t> schemes = formats::quantization_schemes(checkpoint);
        if (!checkpoint.opaque.empty()) return schemes;
        const std::vector<std::uint32_t> of_activations = formats::activation_scales(checkpoint);
        for (std::uint32_t t = 0; t < source.reading.meanings.size(); ++t) {
            Meaning& meaning = source.reading.meanings[t];
            if (meaning.kind == Meaning::Kind::unknown &&
                (meaning.weight_part || is_quantized_weight_part(checkpoint.catalogue.tensors[t].name) ||
                 std::ranges::count(of_activations, t) > 0))
                meaning = {.kind = Meaning::Kind::parameter, .role = Role::quantized};
        }
        return schemes;
    } catch (const Error& error) {
        checkpoint.notes.push_back(fmt::format("quantized weights cannot be dequantized: {}", error.what()));
        return {};
    }
}

}  // namespace

Inspection inspect(OpenedCheckpoint& opened, const std::string& path) {
    formats::Source& source = opened.source;
    Inspection found{.schemes = {}, .holes = find_holes(source.checkpoint.catalogue), .adapter = adapter_text(opened)};
    if (!source.reading.family && !found.adapter)
        found.nearest = nearest_family(source.checkpoint.catalogue.tensors, source.families);
    if (std::string missing = formats::missing_ranks_warning(source); !missing.empty())
        source.checkpoint.notes.push_back(std::move(missing));
    add_virtual_nodes(source, path);
    found.schemes = read_quantization(source);
    return found;
}

std::string role_text(const formats::Source& source, std::size_t tensor) {
    const Meaning& meaning = source.reading.meanings[tensor];
    if (meaning.virtual_node >= 0) return std::string{name(Role::virtual_node)};
    if (!source.checkpoint.roles.empty() || meaning.kind == Meaning::Kind::parameter)
        return std::string{name(role_of(source, tensor))};
    return meaning.kind == Meaning::Kind::extra ? "extra" : "unknown";
}

std::map<std::pair<std::string, std::string>, Total> totals(const formats::Source& source) {
    std::map<std::pair<std::string, std::string>, Total> all;
    const auto& tensors = source.checkpoint.catalogue.tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        Total& total = all[{role_text(source, t), std::string{name(tensors[t].dtype)}}];
        ++total.tensors;
        total.elements += static_cast<std::uint64_t>(volume(tensors[t].shape));
        total.bytes += bytes_of(tensors[t]);
    }
    return all;
}

std::vector<const FileEntry*> files_of(const Catalogue& catalogue) {
    std::vector<const FileEntry*> files;
    for (const FileEntry& file : catalogue.files) {
        if (!file.coding || files.empty() || files.back()->path != file.path) files.push_back(&file);
    }
    return files;
}

std::uint64_t count_replicas(const Catalogue& catalogue) {
    std::uint64_t replicas = 0;
    for (std::size_t p = 1; p < catalogue.pieces.size(); ++p)
        replicas += catalogue.pieces[p].tensor == catalogue.pieces[p - 1].tensor &&
                    catalogue.pieces[p].box == catalogue.pieces[p - 1].box;
    return replicas;
}

std::vector<std::uint64_t> pieces_per_tensor(const Catalogue& catalogue) {
    std::vector<std::uint64_t> counts(catalogue.tensors.size(), 0);
    for (const Piece& piece : catalogue.pieces) ++counts[piece.tensor];
    return counts;
}

bool is_family_known(const Reading& reading) {
    return reading.family != nullptr && (!is_adapter_family(*reading.family) || reading.config.contains("model_type") ||
                                         reading.config.contains("num_layers"));
}

}  // namespace tpx::cli
