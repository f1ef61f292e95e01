// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/new_entries.hpp"

#include <filesystem>
#include <span>
#include <string>

namespace tpx::formats {

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

}  // namespace tpx::formats
