// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/core/coverage.hpp"

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>

namespace tpx::cli {

/// A self-contained HTML page that shows which ranks or files store which parts of each tensor, replicas and holes.
/// `document` is what tpx inspect --tensors --json prints about `catalogue`. If there are more than 1,000 tensors,
/// those whose names differ only in numbers share a row; more than 256 ranks or files share columns.
std::string inspect_html(nlohmann::ordered_json document, const Catalogue& catalogue, std::span<const Hole> holes);

}  // namespace tpx::cli
