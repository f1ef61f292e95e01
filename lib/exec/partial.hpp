// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// The folders OUT.partial-ID in which outputs are built until they are complete: which run writes to one, and whether
// that run is active.
namespace tpx {

/// An exclusive lock on the folder of an unfinished output, held by this process until it ends or the lock is
/// destroyed, even if the folder is renamed. Advisory: on file systems that cannot lock folders, the marker is locked
/// instead; on file systems without locks, a run counts as active for a minute after it last wrote to its marker or
/// journals.
class PartialLock {
public:
    /// Locks `folder`. Throws Error when another run is active in it, or when it belongs to another user.
    explicit PartialLock(const std::filesystem::path& folder);

    /// Makes `text` the content of the marker, which it creates if needed, and syncs the marker.
    void write(const std::string& text);

    /// Closes the marker, so that it can be removed even on file systems that keep files while they are open.
    void close_marker() { file_ = {}; }

private:
    void lock_marker();

    std::filesystem::path marker_;
    Fd folder_;
    Fd file_;
    bool locks_folder_ = false;
};

/// The text of a marker: which output is made from which source, since when, and by which process of which host and
/// job.
std::string marker_text(const std::string& source, const std::filesystem::path& out);

/// An unfinished output beside `out`.
struct PartialOutput {
    std::filesystem::path path;
    std::string what;      ///< the first line of its marker
    bool is_live = false;  ///< whether its run is active
};

/// The unfinished output in `folder`, which has a marker.
PartialOutput partial_at(const std::filesystem::path& folder);

/// The folders beside `out` that have a marker and in which runs were building `out`, sorted by name.
std::vector<PartialOutput> partials_of(const std::filesystem::path& out);

/// Removes the unfinished output in `folder`. Throws Error when its run is active, or when it cannot be removed.
void remove_partial(const std::filesystem::path& folder);

/// `path` without trailing slashes.
std::filesystem::path without_slashes(const std::filesystem::path& path);

/// The folder that `path` is in, "." for a bare name.
std::filesystem::path parent_of(const std::filesystem::path& path);

/// `path` with `suffix` appended to its last name.
std::filesystem::path with_suffix(std::filesystem::path path, const std::string& suffix);

/// `out` with ".partial-" and `id` appended.
std::filesystem::path partial_name(const std::filesystem::path& out, const std::string& id);

}  // namespace tpx
