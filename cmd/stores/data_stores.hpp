// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/stores/managed_source.hpp"
#include "formats/files/data/data_store.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tpx::cli {

/// The folder in a data store for files that are not complete yet.
inline constexpr const char* incoming_name = "tpx.incoming";

/// The data files of a job, and which hosts have them in their data stores.
class DataStores {
public:
    DataStores(const ManagedRun& run, const formats::DataPosition& position);

    /// Finds the files on all hosts, and locks the data store of this host until the object is destroyed. Throws an
    /// mpi::AgreedError if no host has a file (exit status 3) or if its sizes differ. Collective.
    void survey();

    /// Creates the data store of this host, which gets files, and locks it, unless survey() has locked it. Throws Error
    /// if another run or host has created it since then.
    void create();

    /// Throws Error if the path of a file on this host is a folder, is inside something other than a folder, or is on
    /// another file system than incoming(), from which publish() moves the file. `files` are file numbers.
    void check_places(const std::vector<std::size_t>& files) const;

    /// Throws Error if one of `files`, which are file numbers, has changed on this host since survey().
    void check_sources(const std::vector<std::size_t>& files) const;

    std::size_t count() const { return files_.size(); }
    std::uint64_t size(std::size_t f) const { return sizes_[f]; }
    const std::filesystem::path& path(std::size_t f) const { return files_[f].path; }
    const std::filesystem::path& folder() const { return folder_; }
    std::filesystem::path incoming() const { return folder_ / incoming_name; }
    bool is_in_store(std::size_t host, std::size_t f) const { return found_[host][f].in_store; }

    /// The hosts that can read a file, ascending.
    std::vector<std::uint32_t> holders(std::size_t f) const;

    /// The path from which this host, one of the holders, reads a file.
    std::filesystem::path source(std::size_t f) const;

    /// Throws an mpi::AgreedError unless `crcs`, by host, agree with each other and with those in the stores.
    void require_same(std::size_t f, const std::map<std::size_t, std::uint64_t>& crcs) const;

    /// Moves `files`, which are complete in incoming(), to their paths in the data store of this host, and records
    /// their checksums.
    void publish(const std::vector<std::size_t>& files, const std::vector<std::uint64_t>& crcs) const;

private:
    /// Where a host has a data file, and what is known about the file.
    struct Found {
        bool in_store = false;
        bool as_original = false;  ///< in the folder of --data
        std::uint64_t size = 0;
        std::uint64_t crc = 0;  ///< of a file in the store
        unsigned mode = 0600;
    };
    using Record = std::map<std::string, formats::StoredData>;

    bool is_first() const { return run_.team.is_first(run_.comm.rank()); }
    unsigned mode(std::size_t f) const { return found_[holders(f).front()][f].mode; }
    void lock();
    nlohmann::ordered_json own_files();
    bool add_checksum(std::size_t f, formats::StoredData& now, Record& record) const;
    void write_record(const Record& record) const;
    void drop_absent_options();
    std::uint64_t agreed_size(std::size_t f) const;

    const ManagedRun& run_;
    std::vector<formats::DataStoreFile> files_;
    std::filesystem::path folder_;                       // of this host
    std::filesystem::path originals_;                    // of --data; empty: not given
    std::vector<std::vector<Found>> found_;              // by host and file
    std::vector<std::uint64_t> sizes_;                   // by file
    std::map<std::size_t, formats::StoredData> before_;  // files of this host at survey(); on its first rank
    Fd lock_;
};

}  // namespace tpx::cli
