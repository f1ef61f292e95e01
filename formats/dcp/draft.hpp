// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tpx::formats {

/// Byte entries of a new checkpoint.
struct NewObjects {
    /// An entry whose bytes are known.
    struct Made {
        std::string name;
        std::string bytes;
    };
    std::vector<Object> kept;  ///< the source's, in its own files
    std::vector<Made> made;
    std::shared_ptr<const torch::Value> paths;  ///< of names, as planner data has them; null: those of the source
};

/// What DCP and torch_dist share: `folder`/.metadata and the data files beside it, `objects` in the first of them. The
/// source's planner data is carried over when `planner_data`, and then also what DCP has of the content's optimizer.
Draft draft_chunks(const Content& content, const std::filesystem::path& folder, bool planner_data,
                   const NewObjects& objects);

/// Adds a file whose bytes are all known to `draft`.
void add_file(Draft& draft, const std::filesystem::path& path, std::string bytes);

}  // namespace tpx::formats
