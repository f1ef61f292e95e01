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

/// Decides whether the file or folder at an output path may be replaced. It must be a checkpoint or an empty folder,
/// and have nothing in common with the inputs.
class Replaceable {
public:
    /// `sources` are the input files and folders; `draft` is what will be written.
    Replaceable(const std::vector<std::filesystem::path>& sources, const Draft& draft);

    /// Throws Error with the reason if `occupant` must not be replaced: it is a source, contains one or is inside one;
    /// it cannot be opened as a checkpoint; or it contains a file that neither belongs to this checkpoint nor is copied
    /// to the new one.
    void check(const std::filesystem::path& occupant);

    /// Throws Error "OUT: cause" if `out`, which need not exist, is a source, contains one or is inside one. Reads no
    /// folder, so even a large one is rejected at once.
    void check_place(const std::filesystem::path& out) const;

private:
    using Id = std::pair<std::uint64_t, std::uint64_t>;  // device and inode
    struct Entry {
        std::filesystem::path path;  // relative to the folder
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
