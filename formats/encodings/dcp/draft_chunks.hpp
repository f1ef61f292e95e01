// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/new_objects.hpp"

#include <filesystem>
#include <span>
#include <string>

namespace tpx::formats {

/// An entry of a new checkpoint whose archive bytes are known.
struct KnownEntry {
    std::string name;
    std::string archive;
    bool tensor = false;  ///< an f32 scalar, not an object
};

/// The part of a draft that the writers of DCP and torch_dist share: `folder`/.metadata and the data files beside it,
/// with `objects` and `entries` in a file of rank 0. If `planner_data` is set, .metadata contains planner data.
Draft draft_chunks(const Content& content, const std::filesystem::path& folder, bool planner_data,
                   const NewObjects& objects, std::span<const KnownEntry> entries = {});

}  // namespace tpx::formats
