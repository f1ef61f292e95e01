// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>
#include <memory>
#include <span>
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

/// An entry of a new checkpoint whose archive is known.
struct KnownEntry {
    std::string name;
    std::string archive;
    bool tensor = false;  ///< a tensor of one f32, not an object
};

/// What the writers of DCP and of torch_dist share: `folder`/.metadata and the data files beside it, with `objects` and
/// `entries` in a file of rank 0. If `planner_data`, the source's planner data is carried over.
Draft draft_chunks(const Content& content, const std::filesystem::path& folder, bool planner_data,
                   const NewObjects& objects, std::span<const KnownEntry> entries = {});

/// Adds a file whose bytes are all known to `draft`.
void add_file(Draft& draft, const std::filesystem::path& path, std::string bytes);

}  // namespace tpx::formats
