// SPDX-License-Identifier: Apache-2.0
#include "formats/roles.hpp"

namespace tpx::formats {

std::string_view parameter_of(std::string_view name) { return name.substr(0, name.rfind('/')); }

Reading read_by_roles(const Checkpoint& checkpoint, std::span<const Family> families, const Config& config) {
    const std::vector<Tensor>& stored = checkpoint.catalogue.tensors;
    if (checkpoint.roles.empty()) return read(stored, families, config);
    std::vector<Tensor> parameters = stored;
    for (std::size_t t = 0; t < stored.size(); ++t) {
        if (checkpoint.roles[t] != "weight") parameters[t].name = parameter_of(stored[t].name);
    }
    Reading reading = read(parameters, families, config);
    for (std::size_t t = 0; t < stored.size(); ++t) {
        if (reading.meanings[t].kind != Meaning::Kind::extra) reading.meanings[t].role = checkpoint.roles[t];
    }
    return reading;
}

}  // namespace tpx::formats
