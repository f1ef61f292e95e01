// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/missing_weights.hpp"

#include "formats/deepspeed/deepspeed.hpp"
#include "formats/deepspeed/driver.hpp"
#include "formats/deepspeed/origin.hpp"
#include "formats/state/roles.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace tpx::formats {

namespace {

/// Of the entries of modules, placeholders among them.
std::map<std::string, DType> module_dtypes(const deepspeed::Grid& grid) {
    std::map<std::string, DType> dtypes;
    for (const deepspeed::ModelFile& model : grid.models) {
        const auto module = model.root().find("module");
        if (!module || module->is_none()) continue;
        for (const auto& [key, value] : module->entries())
            if (value.is(torch::Kind::object) && key.is(torch::Kind::string))
                if (const auto tensor = model.archive.tensor(value))
                    dtypes.emplace(std::string{key.as_string()}, tensor->dtype);
    }
    return dtypes;
}

using Parameters = std::set<std::string_view>;

/// The names of the parameters that have a tensor of `role`.
Parameters parameters_of(const Checkpoint& checkpoint, Role role) {
    Parameters parameters;
    for (std::size_t t = 0; t < checkpoint.roles.size(); ++t)
        if (checkpoint.roles[t] == role) parameters.insert(parameter_of(checkpoint, t));
    return parameters;
}

}  // namespace

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
    if (added.empty()) return added;
    const deepspeed::Grid grid = deepspeed::read_grid(find_deepspeed(catalogue.directory).step);
    const std::map<std::string, DType> dtypes = module_dtypes(grid);
    for (auto& [name, dtype] : added) {
        const auto found = dtypes.find(name);
        dtype = found == dtypes.end() ? deepspeed::training_dtype(grid.models[0]) : found->second;
    }
    return added;
}

bool stores_masters_only(const Checkpoint& checkpoint) {
    if (checkpoint.format == &deepspeed_driver) return checkpoint.layout && checkpoint.layout->zero == 3;
    if (checkpoint.format != &universal_driver) return false;
    const Parameters masters = parameters_of(checkpoint, Role::master);
    const Parameters weights = parameters_of(checkpoint, Role::weight);
    return std::ranges::none_of(masters, [&](std::string_view master) { return weights.contains(master); });
}

std::vector<std::string> lost_weights(const Checkpoint& checkpoint) {
    if (!checkpoint.format->has_param_groups || stores_masters_only(checkpoint)) return {};
    const Parameters masters = parameters_of(checkpoint, Role::master);
    const Parameters weights = parameters_of(checkpoint, Role::weight);
    std::vector<std::string> lost;
    for (const std::string_view master : masters)
        if (!weights.contains(master)) lost.emplace_back(master);
    return lost;
}

}  // namespace tpx::formats
