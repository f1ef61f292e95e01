// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/masters.hpp"

#include "formats/deepspeed/deepspeed.hpp"
#include "formats/deepspeed/stored_optimizer.hpp"
#include "formats/state/roles.hpp"

#include <algorithm>
#include <set>
#include <string_view>

namespace tpx::formats::deepspeed {
namespace {

/// The dtypes of module entries by name, including placeholders.
std::map<std::string, DType> module_dtypes(const WriterGrid& grid) {
    std::map<std::string, DType> dtypes;
    for (const ModelFile& model : grid.models) {
        const auto module = model.root().find("module");
        if (!module || module->is_none()) continue;
        for (const auto& [key, value] : module->entries())
            if (value.is(torch::Kind::object) && key.is(torch::Kind::string))
                if (const auto tensor = model.archive.tensor(value))
                    dtypes.emplace(std::string{key.as_string()}, tensor->dtype);
    }
    return dtypes;
}

}  // namespace

bool stores_masters_only(const Checkpoint& checkpoint) { return checkpoint.layout && checkpoint.layout->zero == 3; }

bool universal_stores_masters_only(const Checkpoint& checkpoint) {
    const std::set<std::string_view> masters = parameters_with(checkpoint, Role::master);
    const std::set<std::string_view> weights = parameters_with(checkpoint, Role::weight);
    return std::ranges::none_of(masters, [&](std::string_view master) { return weights.contains(master); });
}

void set_weight_dtypes(const Checkpoint& checkpoint, std::map<std::string, DType>& weights) {
    const WriterGrid grid = read_writer_grid(find_deepspeed(checkpoint.catalogue.directory).step);
    const std::map<std::string, DType> dtypes = module_dtypes(grid);
    for (auto& [name, dtype] : weights) {
        const auto found = dtypes.find(name);
        dtype = found == dtypes.end() ? training_dtype(grid.models[0]) : found->second;
    }
}

}  // namespace tpx::formats::deepspeed
