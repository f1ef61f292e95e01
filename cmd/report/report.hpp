// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace tpx::cli {

/// A page for browsers that needs no other file: grids, flows, loads and proofs of `plan`, which is what tpx plan
/// --json prints. Of more than 50,000 flows the page has the largest.
std::string html_report(const nlohmann::ordered_json& plan);

}  // namespace tpx::cli
