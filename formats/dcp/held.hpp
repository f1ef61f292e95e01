// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>

namespace tpx::formats {

/// Opens what a keeper holds, or the files of its manifest anywhere else, as a DCP checkpoint whose payloads are raw:
/// documents have the names, values and key paths that DCP would store. Throws Error if a document is malformed, a
/// segment is shorter than its document says, or the parts are of different iterations or jobs.
Checkpoint open_held(const std::filesystem::path& manifest);

/// The same for a folder with the documents and segments of several hosts, each host with a manifest of its own. A rank
/// that several hosts hold is read once.
Checkpoint open_held_by_hosts(const std::filesystem::path& folder);

/// Whether `folder` is such a folder.
bool is_held_by_hosts(const std::filesystem::path& folder);

/// For each rank of `content.held` a document "rank-00000.json" and a segment "rank-00000.bin", with all
/// values beside the tensors in each. The pieces of the draft are those that have elements.
Draft draft_held(const Content& content);

}  // namespace tpx::formats
