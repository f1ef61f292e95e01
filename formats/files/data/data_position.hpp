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

/// The position of a job in its training data, as tpx-data(5) defines it.
struct DataPosition {
    SampleOrder order;
    std::vector<DataFile> files;  ///< the files that contain the samples, in order; empty: unknown
    Index batch = 0;              ///< samples in a global batch
    int virtual_nodes = 0;        ///< 0: as many as the layout has
    Index consumed = 0;           ///< samples in all batches so far, over all epochs; a multiple of `batch`
};

/// The data position that a TOML file describes. Counts the samples of files for which it gives no number. Throws Error
/// (usage) "FILE:LINE: cause".
DataPosition read_data_file(const std::filesystem::path& path);

/// The name of the file in a checkpoint that contains the data position.
inline constexpr std::string_view data_position_name = "tpx.data.json";

/// The content of that file without the ranks.
nlohmann::ordered_json to_json(const DataPosition& position);

/// The data position from which to_json() made `json`. Throws Error if `json` is not a data position.
DataPosition data_position_of(const nlohmann::ordered_json& json);

/// The data position in the checkpoint `folder`, if it has one. Throws Error "PATH: cause".
std::optional<DataPosition> read_data_position(const std::filesystem::path& folder);

}  // namespace tpx::formats
