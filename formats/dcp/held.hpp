// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>

namespace tpx::formats {

/// Opens the state that a keeper holds, or a copy of the files in its manifest, as a DCP checkpoint with raw payloads:
/// documents have the names, values and key paths that DCP would store. Throws Error if a document is malformed, a
/// segment is shorter than its document says, or the parts belong to different iterations or jobs.
Checkpoint open_held(const std::filesystem::path& manifest);

/// Opens a folder with the documents and segments of several hosts, and a manifest of each host. Reads one copy of a
/// rank that several hosts hold. Throws Error if the hosts hold different saves, or if neither iterations nor manifests
/// show that they hold the same save.
Checkpoint open_held_by_hosts(const std::filesystem::path& folder);

/// Whether `folder` contains a manifest of a host.
bool is_held_by_hosts(const std::filesystem::path& folder);

/// Drafts, for each rank of `content.held`, a document "rank-00000.json" and a segment "rank-00000.bin", each with all
/// non-tensor values. The draft has one piece for each piece of `content`.
Draft draft_held(const Content& content);

}  // namespace tpx::formats
