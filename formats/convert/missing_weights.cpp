// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/missing_weights.hpp"

#include "formats/driver.hpp"
#include "formats/state/roles.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace tpx::formats {

std::map<std::string, DType> add_missing_weights(Source& source) {
    Catalogue& catalogue = source.checkpoint.catalogue;
    std::set<std::string, std::less<>> known;
    for (std::size_t t = 0; t < catalogue.tensors.size(); ++t)
        if (source.checkpoint.roles[t] == Role::weight) known.insert(catalogue.tensors[t].name);
    std::vector<std::pair<std::size_t, std::size_t>> runs(catalogue.tensors.size());
    for (std::size_t p = 0; p < catalogue.pieces.size(); ++p) {
        auto& [begin, end] = runs[catalogue.pieces[p].tensor];
        if (end == 0) begin = p;
        end = p + 1;
    }
    std::map<std::string, DType> added;
    for (std::size_t t = 0, count = catalogue.tensors.size(); t < count; ++t) {
        const std::string parameter{parameter_of(catalogue.tensors[t].name)};
        if (source.checkpoint.roles[t] != Role::master || known.contains(parameter)) continue;
        const auto number = static_cast<std::uint32_t>(catalogue.tensors.size());
        catalogue.tensors.push_back({parameter, catalogue.tensors[t].dtype, catalogue.tensors[t].shape});
        source.checkpoint.roles.push_back(Role::weight);
        source.reading.meanings.push_back(source.reading.meanings[t]);
        source.reading.meanings.back().role = Role::weight;
        for (std::size_t p = runs[t].first; p < runs[t].second; ++p) {
            Piece piece = catalogue.pieces[p];
            piece.tensor = number;
            catalogue.pieces.push_back(piece);
        }
        added.emplace(parameter, DType::f32);
    }
    const auto set_dtypes = source.checkpoint.format->set_weight_dtypes;
    if (!added.empty() && set_dtypes != nullptr) set_dtypes(source.checkpoint, added);
    return added;
}

bool stores_masters_only(const Checkpoint& checkpoint) {
    const auto only = checkpoint.format->stores_masters_only;
    return only != nullptr && only(checkpoint);
}

std::vector<std::string> lost_weights(const Checkpoint& checkpoint) {
    if (!checkpoint.format->has_param_groups || stores_masters_only(checkpoint)) return {};
    const std::set<std::string_view> masters = parameters_with(checkpoint, Role::master);
    const std::set<std::string_view> weights = parameters_with(checkpoint, Role::weight);
    std::vector<std::string> lost;
    for (const std::string_view master : masters)
        if (!weights.contains(master)) lost.emplace_back(master);
    return lost;
}

}  // namespace tpx::formats
