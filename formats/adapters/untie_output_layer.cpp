// SPDX-License-Identifier: Apache-2.0
#include "formats/adapters/untie_output_layer.hpp"

#include "formats/adapters/saved_names.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/layout/detect_layout.hpp"

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace tpx::formats {
namespace {

using Replaced = std::vector<ReplacedTensor>::iterator;

/// An embedding, the output layer that is tied to it, and what an adapter replaces of them.
struct TiedPair {
    std::uint32_t embedding = 0;  ///< number of the base's tensor
    std::string head;             ///< name of the output layer
    Replaced new_embedding;
    Replaced new_head;
};

/// The number of the base's tensor that is all of the canonical tensor `name`.
std::optional<std::uint32_t> stored_as(const Source& source, const std::string& name) {
    for (std::uint32_t t = 0; t < source.reading.meanings.size(); ++t) {
        const Meaning& meaning = source.reading.meanings[t];
        if (meaning.kind == Meaning::Kind::parameter && meaning.role == Role::weight &&
            meaning.rule->expression.parts == std::vector{name})
            return t;
    }
    return std::nullopt;
}

std::optional<std::string> name_of(const Reading& reading, const std::string& tensor) {
    for (const Rule& rule : reading.dialect->rules)
        if (rule.expression.parts == std::vector{tensor} && !rule.alias() && !rule.tagged("module"))
            return rule.name.name({}, reading.prefixed);
    return std::nullopt;
}

std::optional<TiedPair> replaced_pair(const Source& source, Adapter& adapter) {
    const Reading& reading = source.reading;
    if (!reading.tied || !reading.family || reading.dialect == nullptr) return std::nullopt;
    const SavedNames names{source};
    for (const auto& [name, tensor] : reading.family->tensors) {
        if (tensor.tie.empty() || tensor.has('l')) continue;
        const auto embedding = stored_as(source, tensor.tie);
        const auto head = name_of(reading, name);
        if (!embedding || !head) continue;
        const auto find = [&](auto&& is_name) {
            return std::ranges::find_if(adapter.replaced, [&](const ReplacedTensor& replaced) {
                return !replaced.in_place && is_name(names.of(replaced.name));
            });
        };
        const std::string& stored = source.checkpoint.catalogue.tensors[*embedding].name;
        const Replaced new_embedding = find([&](const std::string& other) { return other == stored; });
        const Replaced new_head =
            find([&](const std::string& other) { return other == *head || head->ends_with("." + other); });
        if (new_embedding != adapter.replaced.end() || new_head != adapter.replaced.end())
            return TiedPair{*embedding, *head, new_embedding, new_head};
    }
    return std::nullopt;
}

std::vector<std::byte> bytes_of(const Adapter& adapter, std::uint32_t tensor) {
    const Catalogue& catalogue = adapter.checkpoint.catalogue;
    std::vector<std::byte> bytes;
    for (const Piece& piece : catalogue.pieces) {
        if (piece.tensor != tensor) continue;
        bytes.resize(static_cast<std::size_t>(volume(piece.box) * itemsize(catalogue.tensors[tensor].dtype)));
        const auto path = catalogue.path(piece.file);
        read_at(open_file(path, O_RDONLY), piece.offset, bytes, path);
    }
    return bytes;
}

/// Whether both are replaced by the same values.
bool stays_tied(const Adapter& adapter, const TiedPair& pair) {
    const auto none = adapter.replaced.end();
    if (pair.new_embedding == none || pair.new_head == none) return false;
    const Tensor& one = adapter.tensor(pair.new_embedding->tensor);
    const Tensor& other = adapter.tensor(pair.new_head->tensor);
    return one.dtype == other.dtype && one.shape == other.shape &&
           bytes_of(adapter, pair.new_embedding->tensor) == bytes_of(adapter, pair.new_head->tensor);
}

/// Adds a tensor `name` with the pieces of tensor `original`.
void add_copy(Catalogue& catalogue, std::uint32_t original, const std::string& name) {
    const auto number = static_cast<std::uint32_t>(catalogue.tensors.size());
    Tensor copy = catalogue.tensors[original];
    copy.name = name;
    catalogue.tensors.push_back(std::move(copy));
    std::vector<Piece> pieces;
    for (const Piece& piece : catalogue.pieces)
        if (piece.tensor == original) pieces.push_back(piece);
    for (Piece& piece : pieces) piece.tensor = number;
    catalogue.pieces.insert(catalogue.pieces.end(), pieces.begin(), pieces.end());
}

std::string untied(const std::string& config_json) {
    const char* key = "tie_word_embeddings";
    auto config = nlohmann::ordered_json::parse(config_json, nullptr, false);
    if (!config.is_object()) throw failure("config.json is missing, which must say that the output layer is untied");
    config[key] = false;
    if (const auto inner = config.find("text_config"); inner != config.end() && inner->is_object())
        (*inner)[key] = false;
    return config.dump(2) + "\n";
}

}  // namespace

void untie_output_layer(Source& source, Adapter& adapter) {
    const auto pair = replaced_pair(source, adapter);
    if (!pair) return;
    Checkpoint& checkpoint = source.checkpoint;
    const bool has_head = std::ranges::find(checkpoint.catalogue.tensors, pair->head, &Tensor::name) !=
                          checkpoint.catalogue.tensors.end();
    const bool is_same = stays_tied(adapter, *pair);
    if (pair->new_head != adapter.replaced.end()) pair->new_head->name = pair->head;
    if (is_same) {
        if (!has_head) adapter.replaced.erase(pair->new_head);
        return;
    }
    checkpoint.config_json = untied(checkpoint.config_json);
    if (!has_head) add_copy(checkpoint.catalogue, pair->embedding, pair->head);
    checkpoint.roles.clear();
    checkpoint.parameters.clear();
    checkpoint.config["tie_word_embeddings"] = false;
    Config config = source.reading.config;
    config["tie_word_embeddings"] = false;
    source.reading = read_by_names(checkpoint, source.families, config);
    source.layout = detect_layout(checkpoint.catalogue, source.reading, cutting_of(checkpoint.format));
    source.has_computed_values = true;
}

}  // namespace tpx::formats
