// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/migrate.hpp"

#include <set>
#include <vector>

// Which host gets which files of a migration.
namespace tpx::cli {

/// The files of the draft that each new rank reads: those with the pieces that it needs in memory. A file that no rank
/// needs belongs to the rank that writes it.
std::vector<std::set<std::uint32_t>> files_of_ranks(const Migration& job);

/// The pieces of the draft's files of each rank; `files` has those of each.
std::vector<Piece> pieces_of_ranks(const Migration& job, const std::vector<std::set<std::uint32_t>>& files);

/// By host and file: each host gets the files of its ranks, and the files without tensor data. These go to hosts with
/// ranks only (Purpose::folders), or to all hosts that remain (Purpose::stores).
std::vector<std::vector<bool>> files_of_hosts(const Migration& job, std::span<const Host> hosts,
                                              const std::vector<std::set<std::uint32_t>>& files_of_ranks);

/// Gives every file that fewer than `copies` hosts have to more of them: to those of another switch group first, then
/// to the host with fewest bytes. Throws Error (usage) when there are fewer hosts than that.
void add_replicas(std::vector<std::vector<bool>>& files, std::span<const Host> hosts, const Draft& draft, int copies);

/// By host and file: each file is on the host that holds most of its bytes already, of equal ones on the one that has
/// least to write.
std::vector<std::vector<bool>> files_to_export(const Migration& job, std::span<const Host> hosts,
                                               std::span<const Piece> held);

/// Whether a host can get files: it is not lost, and has a device that is not.
bool remains(const Host& host);

}  // namespace tpx::cli
