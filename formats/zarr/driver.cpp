// SPDX-License-Identifier: Apache-2.0
#include "formats/zarr/driver.hpp"

#include "formats/megatron/buffer_shares.hpp"
#include "formats/megatron/common_of_dcp.hpp"
#include "formats/megatron/conversion.hpp"
#include "formats/megatron/distributed.hpp"
#include "formats/megatron/model_check.hpp"
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

constinit const Driver zarr_driver{
    .name = "zarr",
    .title = "Megatron-core's former `zarr` backend (0.15 and earlier)",
    .framework = "Megatron",
    .written = WrittenFrom::any,
    .knows_optimizer = true,
    .keeps_values = true,
    .is_resharded = true,
    .values = ValuesIn::common_and_objects,
    .dialect = "mcore",
    .model_dialect = "mcore",
    .cutting = {.equal = true, .by_layer = true},
    .has_args = true,
    .keeps_masters = true,
    .precedence = 9,  // before torch_dist, which knows the name of this backend only
    .recognise_folder = recognise_zarr,
    .open = [](const std::filesystem::path& path, MissingFiles) { return open_zarr(path); },
    .complete = unpack_optimizer,
    .check_model_layout = megatron::check_model_layout,
    .reject_name = zarr::reject_name,
    .draft = draft_zarr,
    .note_left_out = megatron::note_left_out,
    .settle_target = megatron::settle_target,
    .restore = megatron::restore_common,
    .settle_config = megatron::settle_config,
    .fit_states = megatron::fit_states,
    .make_args = megatron::args_of_target,
    .note_new = megatron::note_new_rng,
    .model_difference = megatron::model_difference,
    .state_shares = [](const Content& content, const Config& args,
                       std::span<const Role>) { return buffer_shares(content, args); },
};

}  // namespace tpx::formats
