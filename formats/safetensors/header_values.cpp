// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/safetensors/header.hpp"
#include "formats/safetensors/safetensors.hpp"

namespace tpx::formats {

std::map<std::string, std::string> header_values(const Checkpoint& checkpoint) {
    std::map<std::string, std::string> values;
    for (const FileEntry& file : checkpoint.catalogue.files) {
        if (file.path.extension() != ".safetensors" || file.coding) continue;
        for (auto& [key, text] : safetensors::read_header(checkpoint.catalogue.directory / file.path).metadata)
            if (key != "format" && !key.starts_with("DCP_") && !key.starts_with("TPX_")) values.emplace(key, text);
    }
    return values;
}

}  // namespace tpx::formats
