// SPDX-License-Identifier: Apache-2.0
#include "formats/source.hpp"

#include "formats/driver.hpp"

namespace tpx::formats {

bool is_writing_setting(std::string_view key) {
    return key == "ddp_bucket_size" || key == "overlap_grad_reduce" || key == "pipeline_model_parallel_layout";
}

Cutting cutting_of(Format format) { return format->cutting; }

Role role_of(const Source& source, std::size_t tensor) {
    const std::vector<Role>& recorded = source.checkpoint.roles;
    return recorded.empty() ? source.reading.meanings[tensor].role : recorded[tensor];
}

void adopt_dims(Source& source, const Source& other) {
    // Each checkpoint was read with its own Families, so compare names, not addresses.
    if (source.reading.family && other.reading.family && source.reading.family->name == other.reading.family->name)
        add_dims(source.reading, other.reading.dims);
}

std::vector<SourceFile> paths(const Catalogue& catalogue) {
    std::vector<SourceFile> all;
    for (const FileEntry& file : catalogue.files) all.push_back({catalogue.directory / file.path, file.coding});
    return all;
}

}  // namespace tpx::formats
