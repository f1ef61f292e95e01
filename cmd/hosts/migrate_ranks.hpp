// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migration.hpp"
#include "formats/files/store/manifest.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpx::cli {

/// Where the ranks of a state run, for launchers.
struct RankPlaces {
    Layout layout;
    Index batch = 0;  ///< samples of a global batch; 0: unknown
    std::span<const Host> hosts;
    std::vector<std::uint32_t> host_of_rank;
    std::vector<std::int32_t> device_of_rank;  ///< index among the devices of its host
    bool as_recorded = true;                   ///< whether each device is the one for which the state was made
};

/// Where the new ranks of a migration run; `job` must outlive the result.
RankPlaces rank_places(const Migration& job);

/// Where the ranks of a state in managed stores run: on the devices for which the state was made or, if one of a host
/// is lost, on the other devices of this host in order. Nothing if a host of the state is not among `hosts`, is lost,
/// or has lost too many devices.
std::optional<RankPlaces> rank_places(const formats::Manifest& manifest, std::span<const Host> hosts, Index batch);

/// The ranks, each with its host, device and environment variables, in which paths are absolute. `pattern` is the
/// folder from which ranks load their state, `data_store` the folder of their data files; empty: unknown.
nlohmann::ordered_json ranks_json(const RankPlaces& places, const std::string& pattern,
                                  const std::string& data_store = "");

}  // namespace tpx::cli
