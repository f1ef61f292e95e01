// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/read_record.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// One thing that all ranks must have in common.
struct Claim {
    std::string what;   ///< as an error names it: "ckpt/model.safetensors", "the plan"
    std::string value;  ///< as an error shows it
    std::string local;  ///< more of the value, which is compared only between ranks on the host of rank 0
};

/// A digest of claims that is the same on all hosts.
std::uint64_t digest_of(std::span<const Claim> claims);

/// Returns when the claims of all ranks are those of rank 0. Otherwise throws an mpi::AgreedError that names the ranks
/// and the first thing that differs. Sends little unless something differs. Collective.
void require_same(const mpi::Comm& comm, const std::vector<Claim>& claims);

/// A claim for each file of `record`, by its path relative to `directory` where it is below it: size, time of the last
/// change, and, on one host, inode. The device is left out: it differs between hosts that share a file system. Rank 0
/// has read the files and claims what it found. Ranks with the same `directory` as rank 0, by its inode, each look at a
/// share of the files; other ranks look at all files. Collective.
std::vector<Claim> claims_of(const mpi::Comm& comm, const ReadRecord& record, const std::filesystem::path& directory);

/// Checks that no file of `record` has changed since it was recorded; each rank does a share. Throws an
/// mpi::AgreedError that names the file. Collective.
void check_unchanged(const mpi::Comm& comm, const ReadRecord& record);

}  // namespace tpx
