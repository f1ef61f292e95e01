// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tpx::formats {

/// Decides whether what has the name of an output may be replaced: nothing but a checkpoint, or an empty folder, that
/// has no part in what is read.
class Replaceable {
public:
    /// `sources` are the files and folders that are read; `draft` is what will be written.
    Replaceable(const std::vector<std::filesystem::path>& sources, const Draft& draft);

    /// Throws Error with the reason when `occupant` must not be replaced: it is a source, contains one or lies in one;
    /// is no checkpoint that can be opened; or contains something that is not part of it, which the new output does not
    /// contain either.
    void check(const std::filesystem::path& occupant);

    /// Throws Error "OUT: cause" when `out` would lie in a folder that is read, whether it exists or not, and when it
    /// is a source or contains one. Reads no folder, so that even a large one is refused at once.
    void check_place(const std::filesystem::path& out) const;

private:
    using Id = std::pair<std::uint64_t, std::uint64_t>;  // device and inode
    struct Entry {
        std::filesystem::path path;  // in the folder
        Id id;
        std::uint64_t size = 0;
        std::int64_t modified = 0;
        bool is_file = false;  // or a link to one
        friend bool operator==(const Entry&, const Entry&) = default;
    };

    void check_apart(const std::filesystem::path& occupant) const;
    void check_paths(const std::filesystem::path& occupant) const;
    void check_file(const std::filesystem::path& occupant) const;
    void check_entries(const std::filesystem::path& folder, const std::vector<Entry>& entries) const;
    static std::vector<Entry> list(const std::filesystem::path& folder);
    bool is_kept(const std::filesystem::path& file, const std::filesystem::path& inside) const;

    std::vector<std::filesystem::path> sources_;
    const Draft& draft_;
    std::optional<std::vector<Entry>> approved_;
};

}  // namespace tpx::formats
