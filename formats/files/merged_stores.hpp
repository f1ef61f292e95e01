// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/core/error.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tpx::formats {

/// The folder of `host`'s store: `pattern` with the host's name in place of each "{host}". Throws Error (usage) if the
/// pattern contains no "{host}".
std::filesystem::path store_of(const std::string& pattern, const Host& host);

/// Presents the stores of all hosts that are not lost as one checkpoint: a folder of links to every file of every
/// store, removed with this object. Throws Error if a file differs in size between stores, if stores name different
/// latest iterations, or if no store has any file.
class MergedStores {
public:
    MergedStores(const std::string& pattern, std::span<const Host> hosts);
    ~MergedStores();
    MergedStores(const MergedStores&) = delete;
    MergedStores& operator=(const MergedStores&) = delete;

    const std::filesystem::path& folder() const { return folder_; }

    /// `text` with the pattern in place of the folder.
    std::string named(std::string text) const;

    /// Runs `read`, which reads the folder. Errors that it throws name the pattern in place of the folder, and the
    /// stores that have no files or are not read.
    template <class Read>
    void in_stores(Read&& read) const {
        try {
            read();
        } catch (const Error& error) {
            throw named(error);
        }
    }

private:
    Error named(const Error& error) const;

    std::filesystem::path folder_;
    std::string pattern_;
    std::vector<std::string> lost_;   // hosts whose stores are not read
    std::vector<std::string> empty_;  // stores without files
};

/// For each file of `catalogue`, the hosts, ascending, whose stores contain it; `root` is the folder of which the
/// stores are copies. Throws Error if a file has another size in a store.
std::vector<std::vector<std::uint32_t>> hosts_of_files(const std::string& pattern, std::span<const Host> hosts,
                                                       const std::filesystem::path& root, const Catalogue& catalogue);

/// The holders of each file of `catalogue`. `holders` are those of the stored files, which come first; the files after
/// them contain values computed (see Coding) from a stored file with the same path.
std::vector<std::vector<std::uint32_t>> with_computed_files(std::vector<std::vector<std::uint32_t>> holders,
                                                            const Catalogue& catalogue);

}  // namespace tpx::formats
