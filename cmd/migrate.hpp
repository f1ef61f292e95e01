// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/commands.hpp"
#include "cmd/reading.hpp"
#include "formats/conversion.hpp"
#include "lib/change/change.hpp"
#include "lib/change/piece_parcels.hpp"
#include "lib/core/read_record.hpp"
#include "lib/exec/execute.hpp"
#include "lib/exec/wire/exchange.hpp"
#include "lib/exec/wire/mirror.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx::cli {

/// The hosts, the one that this rank works for, and the rank that sends and receives for each.
struct Crew {
    std::vector<Host> hosts;
    std::uint32_t host = 0;
    std::vector<int> rank_of_host;  ///< -1: none
};

/// Finds out who works for which host. Throws an mpi::AgreedError (usage) when a process is on none of the hosts, or
/// none on a host that is not lost. Collective.
Crew crew_of(const mpi::Comm& comm, const MigrateOptions& options);

/// What `tpx migrate` is about to do, the same on all ranks: which files each host gets, and what hosts send for that.
struct Migration {
    Opened opened;
    formats::Target target;
    formats::Conversion conversion;
    std::vector<std::vector<std::uint32_t>> holders;  ///< by source file: the hosts whose stores have it, ascending
    std::vector<std::vector<bool>> files_of_hosts;    ///< by host and file of the draft
    Change change;
    std::vector<PieceCell> cells;  ///< of the parcels
};

/// Plans the migration of the checkpoint in `mirror` to the hosts of `options`. Reads nothing but `mirror.folder()`,
/// where files that the draft copies are read too: they are among its fixed bytes then.
Migration plan_migration(const MigrateOptions& options, std::vector<Host> hosts, const Mirror& mirror);

/// Opens the stores as one checkpoint and plans, the same on all ranks. Throws an mpi::AgreedError, also when the
/// stores are not shown to hold parts of one checkpoint, as plan --stores demands it too. Collective.
Migration agreed_migration(const mpi::Comm& comm, const MigrateOptions& options, const Crew& crew, Mirror& mirror);

/// A digest of the source files and the plan, the same on all ranks and whatever their number; `record` has the files
/// of this rank's store. Throws an mpi::AgreedError when the ranks have made different plans. Collective.
std::uint64_t agreed_request(const mpi::Comm& comm, const MigrateOptions& options, const Migration& job,
                             const ReadRecord& record, bool is_first_of_host);

/// The part of a migration that one host carries out.
struct HostPart {
    Draft draft;  ///< of the host's files
    Inbox inbox;
    std::vector<Piece> held;        ///< what the host's store has, as pieces of the source's files
    std::vector<Piece> sources;     ///< the same, and what the inbox contains
    std::vector<SourceFile> files;  ///< of the store, and the inbox
    std::vector<Piece> targets;     ///< of the draft
    Moves moves;                    ///< from `sources` to `targets`
};

/// The part of host number `host`, whose store is `store`; its inbox will be the file `inbox`.
HostPart part_of_host(const Migration& job, const Mirror& mirror, std::uint32_t host,
                      const std::filesystem::path& store, const std::filesystem::path& inbox);

/// What a migration did, on all hosts together, with the bytes of each host.
struct MigrateDone {
    Report report;
    std::vector<std::uint64_t> sent;
    std::vector<std::uint64_t> received;
    double seconds = 0;
};

/// Prints what was done, or what would be.
void report(const Migration& job, const MigrateOptions& options, const MigrateDone* done, Output& out);

}  // namespace tpx::cli
