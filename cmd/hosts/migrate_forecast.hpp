// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migration.hpp"
#include "cmd/output/output.hpp"
#include "formats/files/store/manifest.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace tpx::cli {

/// Predicts the time, messages and memory that `job` will take, for rank 0 of a dry run. `checked` contains the bytes
/// of each host that are compared with checksums; `manifest` is that of the new state, or null; `disk_limit` is the
/// limit on the bytes per second that each host reads and writes, if there is one. Throws Error if --memory is too
/// small.
Forecast forecast_of(const Migration& job, const MigrateRequest& options, const std::vector<std::uint64_t>& checked,
                     const formats::Manifest* manifest, std::optional<double> disk_limit = {});

nlohmann::ordered_json to_json(const Forecast& forecast);

/// Prints the forecast as a table.
void print_forecast(const Forecast& forecast, std::uint64_t bytes_between_hosts, Output& out);

}  // namespace tpx::cli
