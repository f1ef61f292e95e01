// SPDX-License-Identifier: Apache-2.0
#include "formats/registry.hpp"

#include "formats/dcp/driver.hpp"
#include "formats/deepspeed/driver.hpp"
#include "formats/gguf/driver.hpp"
#include "formats/hdf5/driver.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/safetensors/driver.hpp"
#include "formats/torch/driver.hpp"

#include <algorithm>
#include <vector>

namespace tpx::formats {
namespace {

constexpr Format all_drivers[] = {
    &safetensors_driver, &dcp_driver,          &torch_dist_driver, &zarr_driver,         &megatron_driver,
    &deepspeed_driver,   &universal_driver,    &torch_driver,      &torch_legacy_driver, &hdf5_driver,
    &keras_driver,       &keras_legacy_driver, &gguf_driver,
};

}  // namespace

constinit const Format default_format = all_drivers[0];

std::span<const Format> drivers() { return all_drivers; }

std::span<const Format> drivers_by_precedence() {
    static const std::vector<Format> sorted = [] {
        std::vector<Format> all(std::begin(all_drivers), std::end(all_drivers));
        std::ranges::stable_sort(all, {}, &Driver::precedence);
        return all;
    }();
    return sorted;
}

std::string_view name(Format format) { return format->name; }

std::optional<Format> format_by_name(std::string_view name) {
    const auto* found = std::ranges::find(all_drivers, name, [](Format format) { return format->name; });
    return found == std::end(all_drivers) ? std::nullopt : std::optional{*found};
}

}  // namespace tpx::formats
