// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/data/data_position.hpp"
#include "lib/core/interval.hpp"
#include "lib/layout/layout.hpp"

#include <nlohmann/json.hpp>

#include <string>

// What trainers read about virtual nodes and data.
namespace tpx::formats {

/// The virtual nodes that a rank runs, for a layout that has some: each with its samples of a global batch, and the
/// samples and gradient weight of the rank. Without samples if `batch` is 0, which is unknown.
nlohmann::ordered_json share_json(const Layout& layout, Index batch, int rank);

/// Adds the same to the environment of a rank, for a layout that has virtual nodes.
void add_share(nlohmann::ordered_json& environment, const Layout& layout, Index batch, int rank);

/// The text of the file tpx.data.json: the data position, and the share of each rank, with the positions of its samples
/// of the next global batch.
std::string data_position_text(const DataPosition& position, const Layout& layout);

}  // namespace tpx::formats
