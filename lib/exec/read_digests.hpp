// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/core/digest.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace tpx {

/// Computes digests of files from the bytes that other work reads from them, on any threads and ranks and in any order.
/// Only bytes that no other work has read are read for the digests.
class ReadDigests {
public:
    /// `files`, which must outlive this, has one tensor of bytes for each file, with the number of its file.
    ReadDigests(const mpi::Comm& comm, const Catalogue& files);

    /// The number of the file at `path`, if it is one of the files.
    std::optional<std::uint32_t> number_of(const std::filesystem::path& path) const;

    /// Adds bytes that were read at `offset` of a file. Several threads may call this at once.
    void add(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);

    /// The digest of each file, on every rank, after reading the bytes that no rank has added. Collective; throws an
    /// mpi::AgreedError. To be called once.
    std::vector<Digest> complete(const ExecOptions& options);

private:
    /// The bytes of a file that were added. The CRC is linear, so bytes that were added twice count as not added.
    struct Added {
        std::uint64_t crc = 0;
        std::set<std::uint64_t> edges;  ///< offsets where bytes added an odd number of times begin or end
    };

    static void toggle(std::set<std::uint64_t>& edges, std::uint64_t edge);
    std::vector<std::set<std::uint64_t>> edges_of_all_ranks() const;
    std::vector<Piece> not_added() const;

    const mpi::Comm& comm_;
    const Catalogue& files_;
    std::map<std::filesystem::path, std::uint32_t> numbers_;
    std::size_t most_edges_;
    std::mutex mutex_;
    std::size_t edges_ = 0;
    std::vector<Added> added_;  // by file
};

}  // namespace tpx
