// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>

namespace tpx::formats {

/// What DCP and torch_dist share: `folder`/.metadata and the data files beside it. The source's objects are carried
/// over when `objects`, its planner data when `planner_data`, and then also what DCP has of the content's optimizer.
Draft draft_chunks(const Content& content, const std::filesystem::path& folder, bool planner_data, bool objects);

/// Adds a file whose bytes are all known to `draft`.
void add_file(Draft& draft, const std::filesystem::path& path, std::string bytes);

}  // namespace tpx::formats
