// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/core/digest.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace tpx {

/// The digests of files as bytes, made from what other work reads of them, on any threads and ranks and in any order.
/// Only bytes that no work has read are read for the digests themselves.
class ReadDigests {
public:
    /// `files`, which must outlive this, has one tensor of bytes for each file, with the number of its file.
    ReadDigests(const mpi::Comm& comm, const Catalogue& files);

    /// The number of the file at `path`, if it is one of the files.
    std::optional<std::uint32_t> number_of(const std::filesystem::path& path) const;

    /// Takes in bytes that were read at `offset` of a file. Several threads may call it.
    void add(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);

    /// The digest of each file, on every rank, after reading the bytes that no rank has added. Collective; throws an
    /// mpi::AgreedError. To be called once.
    std::vector<Digest> complete(const ExecOptions& options);

private:
    /// What was added of a file. The CRC is linear, so that bytes that were added twice count as not added.
    struct Added {
        std::uint64_t crc = 0;
        std::set<std::uint64_t> edges;  ///< between bytes added an odd and an even number of times
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
