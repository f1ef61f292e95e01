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

/// The folder of `host`'s store: `pattern` with the host's name in place of each "{host}". Throws Error (usage) when
/// the pattern has none.
std::filesystem::path store_of(const std::string& pattern, const Host& host);

/// The stores of all hosts that are not lost as one checkpoint: a folder of links to every file of every store, removed
/// with this object. Throws Error when a file differs in size between stores, or no store has any.
class MergedStores {
public:
    MergedStores(const std::string& pattern, std::span<const Host> hosts);
    ~MergedStores();
    MergedStores(const MergedStores&) = delete;
    MergedStores& operator=(const MergedStores&) = delete;

    const std::filesystem::path& folder() const { return folder_; }

    /// `text` with the pattern wherever it names the folder.
    std::string named(std::string text) const;

    /// Runs `read`, which reads the folder; an Error that leaves it names the pattern in place of the folder, and the
    /// stores that have no files.
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

/// The hosts, ascending, whose store has each file of `catalogue`, with the size it has there; `root` is the folder
/// that stores are copies of. Throws Error when a store has it in another size.
std::vector<std::vector<std::uint32_t>> hosts_of_files(const std::string& pattern, std::span<const Host> hosts,
                                                       const std::filesystem::path& root, const Catalogue& catalogue);

/// By file of `catalogue`: the holders of each. `holders` are those of the files that are stored; files behind them
/// have computed values (see Coding) of a stored file with the same path.
std::vector<std::vector<std::uint32_t>> with_computed_files(std::vector<std::vector<std::uint32_t>> holders,
                                                            const Catalogue& catalogue);

}  // namespace tpx::formats
