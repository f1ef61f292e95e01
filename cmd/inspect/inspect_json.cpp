// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspection.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "lib/layout/adapter_family.hpp"

#include <cctype>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The settings of an adapter that PEFT saved; the type of other adapters; null for other checkpoints.
Json adapter_json(const Reading& reading, const Inspection& found) {
    Json json = found.adapter ? found.adapter->json : Json{};
    if (!found.adapter && reading.family != nullptr && is_adapter_family(*reading.family)) json["type"] = "lora";
    if (!json.is_null()) json["library"] = found.adapter || reading.dialect->name == "hf" ? "peft" : "bridge";
    return json;
}

Json summary(const formats::Source& source) {
    const formats::Checkpoint& checkpoint = source.checkpoint;
    const Catalogue& catalogue = checkpoint.catalogue;
    Json json{{"checkpoint", replace_held_paths(catalogue.directory.string())},
              {"format", formats::name(checkpoint.format)},
              {"family", is_family_known(source.reading) ? Json(source.reading.family->name) : nullptr},
              {"dialect", source.reading.dialect ? Json(source.reading.dialect->name) : nullptr},
              {"layout", source.layout ? to_json(*source.layout) : Json(nullptr)},
              {"iteration", checkpoint.iteration ? Json(*checkpoint.iteration) : nullptr},
              {"tensors", catalogue.tensors.size()},
              {"pieces", catalogue.pieces.size()},
              {"replicas", count_replicas(catalogue)},
              {"objects", catalogue.objects.size()}};
    if (!checkpoint.variant.empty()) json["variant"] = checkpoint.variant;
    json["totals"] = Json::array();
    for (const auto& [key, total] : totals(source))
        json["totals"].push_back({{"role", key.first},
                                  {"dtype", key.second},
                                  {"tensors", total.tensors},
                                  {"elements", total.elements},
                                  {"bytes", total.bytes}});
    return json;
}

/// Adds what is known of the model: families, adapters, quantization, sizes.
void add_model(const formats::Source& source, const Inspection& found, Json& json) {
    if (found.nearest)
        json["nearest"] = {{"family", found.nearest->family->name},
                           {"dialect", found.nearest->dialect->name},
                           {"known", found.nearest->known},
                           {"unknown", found.nearest->unknown},
                           {"missing", found.nearest->missing}};
    if (Json adapter = adapter_json(source.reading, found); !adapter.is_null()) json["adapter"] = std::move(adapter);
    for (const auto& [scheme, count] : found.schemes)
        json["quantized"].push_back({{"scheme", scheme}, {"tensors", count}});
    json["dims"] = Json::object();
    for (const auto& [letter, size] : source.reading.dims.known())
        if (std::isalpha(static_cast<unsigned char>(letter)) != 0) json["dims"][std::string{letter}] = size;
}

Json tensor_json(const formats::Source& source, std::size_t t, std::uint64_t pieces) {
    const Tensor& tensor = source.checkpoint.catalogue.tensors[t];
    return {{"name", tensor.name},
            {"dtype", name(tensor.dtype)},
            {"shape", to_json(tensor.shape)},
            {"role", role_text(source, t)},
            {"pieces", pieces}};
}

Json tensor_list(const formats::Source& source) {
    const Catalogue& catalogue = source.checkpoint.catalogue;
    const auto counts = pieces_per_tensor(catalogue);
    Json list = Json::array();
    for (std::size_t t = 0; t < catalogue.tensors.size(); ++t) list.push_back(tensor_json(source, t, counts[t]));
    return list;
}

}  // namespace

Json inspect_json(const formats::Source& source, const Inspection& found, bool tensors) {
    const formats::Checkpoint& checkpoint = source.checkpoint;
    const Catalogue& catalogue = checkpoint.catalogue;
    Json json = summary(source);
    add_model(source, found, json);
    json["holes"] = Json::array();
    for (const Hole& hole : found.holes)
        json["holes"].push_back({{"tensor", catalogue.tensors[hole.tensor].name}, {"box", to_json(hole.box)}});
    json["files"] = Json::array();
    for (const FileEntry* file : files_of(catalogue))
        json["files"].push_back({{"path", file->path.string()}, {"bytes", file->size}});
    json["notes"] = checkpoint.notes;
    for (const std::string& warning : checkpoint.warnings) json["notes"].push_back(warning);
    if (!checkpoint.opaque.empty()) json["opaque"] = Json::array();
    for (const formats::OpaqueTensor& tensor : checkpoint.opaque)
        json["opaque"].push_back({{"name", tensor.name}, {"type", tensor.type}, {"shape", to_json(tensor.shape)}});
    if (tensors) json["tensor_list"] = tensor_list(source);
    return json;
}

}  // namespace tpx::cli
