// SPDX-License-Identifier: Apache-2.0
#include "formats/companions.hpp"
#include "formats/dcp/accelerate_parts.hpp"
#include "formats/dcp/dcp.hpp"
#include "formats/dcp/driver.hpp"
#include "formats/dcp/training_roles.hpp"
#include "formats/encodings/dcp/metadata.hpp"
#include "formats/folder_files.hpp"
#include "formats/state/common_objects.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

namespace tpx::formats {
namespace {

void refuse_per_rank_metadata(const std::filesystem::path& directory) {
    if (path_exists(directory / ".metadata") || !path_exists(directory / "__0.metadata")) return;
    throw failure("{}: each rank wrote its own metadata (use_collectives=False), which tpx cannot read",
                  (directory / "__0.metadata").string());
}

}  // namespace

int ranks_of_files(const std::filesystem::path& directory) {
    std::int32_t highest = -1;
    const auto count = [&](const std::filesystem::path& folder) {
        for (const std::string& name : list_directory(folder))
            highest = std::max<std::int32_t>(highest, rank_of_file(name));
    };
    count(directory);
    if (!path_exists(directory / ".metadata"))
        for (const std::string& part : accelerate_parts(directory)) count(directory / part);
    return highest + 1;
}

Checkpoint open_dcp(const std::filesystem::path& directory, MissingFiles missing) {
    refuse_per_rank_metadata(directory);
    Checkpoint checkpoint;
    checkpoint.format = &dcp_driver;
    if (path_exists(directory / ".metadata") || accelerate_parts(directory).empty())
        open_chunks(directory, checkpoint, missing);
    else
        open_accelerate_parts(directory, checkpoint, missing);
    read_config(directory, checkpoint);
    read_companions(checkpoint, {});
    find_training_files(directory, checkpoint);
    megatron::read_args(checkpoint);
    assign_training_roles(checkpoint);
    return checkpoint;
}

}  // namespace tpx::formats
