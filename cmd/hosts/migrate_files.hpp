// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migration.hpp"

#include <set>
#include <vector>

// Which host gets which files of a migration.
namespace tpx::cli {

/// The files of the draft that each new rank reads: those that contain pieces that the rank needs. A file that no rank
/// needs belongs to the rank that writes it.
std::vector<std::set<std::uint32_t>> files_of_ranks(const Migration& job);

/// The pieces in the files that each new rank reads; `files` is the result of files_of_ranks().
std::vector<Piece> pieces_of_ranks(const Migration& job, const std::vector<std::set<std::uint32_t>>& files);

/// By host and file: each host gets the files that its ranks read. Files without tensor data go to all hosts with ranks
/// (MigrateTarget::folders) or to all hosts that remain (MigrateTarget::stores).
std::vector<std::vector<bool>> files_of_hosts(const Migration& job, std::span<const Host> hosts,
                                              const std::vector<std::set<std::uint32_t>>& files_of_ranks);

/// Throws Error (usage) if `hosts` hosts cannot keep `copies` copies of each file.
void require_hosts(int copies, int hosts);

/// Assigns each file to at least `copies` hosts. All files of one host get their other copies on the same hosts, which
/// are in other switch groups if possible, and chosen so that all hosts keep about the same number of bytes. With two
/// or more copies, each file is in at least two switch groups, if there are two. Throws Error (usage) if fewer than
/// `copies` hosts can keep files.
void add_replicas(std::vector<std::vector<bool>>& files, std::span<const Host> hosts, const Draft& draft, int copies);

/// By host and file: each file is written by the host that already has the most of its bytes; in a tie, by the one with
/// the least to write.
std::vector<std::vector<bool>> files_to_export(const Migration& job, std::span<const Host> hosts,
                                               std::span<const Piece> held);

/// By host and file: each file is kept by the hosts that remain and have all of it. If none of them has the complete
/// file, it goes to the host that has the most of its bytes; in a tie, to the host that has the least to write. Files
/// without tensor data go to all hosts that remain.
std::vector<std::vector<bool>> files_to_save(const Migration& job, std::span<const Host> hosts,
                                             std::span<const Piece> held);

/// Whether a host can get files: neither the host nor all of its devices are lost.
bool has_live_devices(const Host& host);

}  // namespace tpx::cli
