// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/dist_checkpointing.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/megatron/zarr.hpp"
#include "formats/megatron/zarr_chunks.hpp"

namespace tpx::formats {

Checkpoint open_zarr(const std::filesystem::path& directory_or_root) {
    const std::filesystem::path folder = megatron::distributed_folder(directory_or_root, zarr_driver.name);
    Checkpoint checkpoint;
    checkpoint.format = &zarr_driver;
    zarr::read_arrays(folder, checkpoint);
    megatron::read_common_state(checkpoint);
    return checkpoint;
}

}  // namespace tpx::formats
