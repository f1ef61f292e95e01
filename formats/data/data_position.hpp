// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"
#include "lib/core/sample_order.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// A file with samples of a data set.
struct DataFile {
    std::string path;  ///< as it was given
    Index samples = 0;
};

/// Where a job is in its data, see tpx-data(5): its samples in their order, in global batches of one size.
struct DataPosition {
    SampleOrder order;
    std::vector<DataFile> files;  ///< that have the samples, in order; empty: not given
    Index batch = 0;              ///< samples of a global batch
    int virtual_nodes = 0;        ///< 0: as the layout has
    Index consumed = 0;           ///< samples of all batches so far, over all epochs; a multiple of batch
};

/// The data position that a TOML file describes. Counts the samples of files for which it has no number. Throws Error
/// (usage) "FILE:LINE: cause".
DataPosition read_data_file(const std::filesystem::path& path);

/// The name of the file in a checkpoint that has its data position.
inline constexpr std::string_view data_position_name = "tpx.data.json";

/// What that file has, but for the ranks.
nlohmann::ordered_json to_json(const DataPosition& position);

/// The data position in the checkpoint `folder`, if it has one. Throws Error "PATH: cause".
std::optional<DataPosition> read_data_position(const std::filesystem::path& folder);

}  // namespace tpx::formats
