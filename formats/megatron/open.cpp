// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/dcp/metadata.hpp"
#include "formats/megatron/dist_checkpointing.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/megatron/torch_dist.hpp"

namespace tpx::formats {

Checkpoint open_torch_dist(const std::filesystem::path& directory_or_root, MissingFiles missing) {
    const std::filesystem::path folder = megatron::distributed_folder(directory_or_root, torch_dist_driver.name);
    Checkpoint checkpoint;
    checkpoint.format = &torch_dist_driver;
    open_chunks(folder, checkpoint, missing);
    megatron::read_common_state(checkpoint);
    return checkpoint;
}

}  // namespace tpx::formats
