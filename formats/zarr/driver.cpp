// SPDX-License-Identifier: Apache-2.0
#include "formats/zarr/driver.hpp"

#include "formats/megatron/dist_checkpointing.hpp"
#include "formats/megatron/shared_traits.hpp"
#include "formats/megatron/unpack.hpp"
#include "formats/recognise.hpp"
#include "formats/zarr/names.hpp"
#include "formats/zarr/zarr.hpp"

namespace tpx::formats {
namespace {

std::optional<Recognised> recognise_zarr(const std::filesystem::path& folder) {
    if (megatron::sharded_backend(folder) != zarr_driver.name) return std::nullopt;
    return Recognised{folder, &zarr_driver, "a Megatron-core checkpoint of the former zarr backend"};
}

}  // namespace

constinit const Driver zarr_driver = megatron::with_shared_traits({
    .name = "zarr",
    .title = "Megatron-core's former `zarr` backend (0.15 and earlier)",
    .values = ValuesIn::common_and_objects,
    .precedence = 9,  // before torch_dist, which reports all other backends as not readable
    .recognise_folder = recognise_zarr,
    .open = [](const std::filesystem::path& path, MissingFiles) { return open_zarr(path); },
    .complete = unpack_optimizer,
    .reject_name = zarr::reject_name,
    .draft = draft_zarr,
});

}  // namespace tpx::formats
