// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace tpx::cli {

/// An HTML page that needs no other file: grids, flows, loads and proofs of `plan`, which is what tpx plan --json
/// prints. The page contains at most the 50,000 largest flows.
std::string html_report(const nlohmann::ordered_json& plan);

}  // namespace tpx::cli
