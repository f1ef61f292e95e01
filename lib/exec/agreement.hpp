// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/read_record.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// A value on which all ranks must agree.
struct Claim {
    std::string what;   ///< the name of the value in errors: "ckpt/model.safetensors", "the plan"
    std::string value;  ///< the value as errors show it
    std::string local;  ///< another part of the value, compared only between ranks on the host of rank 0
};

/// A digest of claims that is the same on all hosts.
std::uint64_t digest_of(std::span<const Claim> claims);

/// Returns if the claims of all ranks equal those of rank 0. Otherwise throws an mpi::AgreedError that names the ranks
/// and the first difference. Sends little data unless something differs. Collective.
void require_same(const mpi::Comm& comm, const std::vector<Claim>& claims);

/// A claim for each file of `record`, named by its path (relative to `directory` if below it): size, modification time
/// and, within a host, inode. The device is omitted: it differs between hosts that share a file system. Rank 0 has read
/// the files and claims what it recorded. Ranks whose `directory` has the same identity as on rank 0 each check a share
/// of the files; other ranks check all files. Collective.
std::vector<Claim> claims_of(const mpi::Comm& comm, const ReadRecord& record, const std::filesystem::path& directory);

/// Checks that no file of `record` has changed since it was recorded; each rank does a share. Throws an
/// mpi::AgreedError that names the file. Collective.
void check_unchanged(const mpi::Comm& comm, const ReadRecord& record);

}  // namespace tpx
