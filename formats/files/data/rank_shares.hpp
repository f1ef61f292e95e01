// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/data/data_position.hpp"
#include "lib/core/interval.hpp"
#include "lib/layout/layout.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// The virtual nodes and samples of each rank, in the forms that trainers read.
namespace tpx::formats {

/// The share of a rank in a layout with virtual nodes: the virtual nodes that it runs, each with its samples in a
/// global batch, and the samples and gradient weight of the rank. If `batch` is 0, which means unknown, the samples and
/// the weight are omitted.
nlohmann::ordered_json share_json(const Layout& layout, Index batch, int rank);

/// Adds the same share to the environment variables of a rank.
void add_share(nlohmann::ordered_json& environment, const Layout& layout, Index batch, int rank);

/// The virtual nodes of a job as its data position records them.
struct StoredNodes {
    int count = 0;
    std::vector<int> parts;  ///< of each dp coordinate; empty: even parts, or unknown
};

/// The virtual nodes in the data position of the checkpoint `folder`, whose layout has `dp` data-parallel coordinates;
/// unset if it has no position. Throws Error "PATH: cause".
std::optional<StoredNodes> read_stored_nodes(const std::filesystem::path& folder, int dp);

/// The text of the file tpx.data.json: the data position, and the share of each rank, with the positions of its samples
/// in the next global batch.
std::string data_position_text(const DataPosition& position, const Layout& layout);

}  // namespace tpx::formats
