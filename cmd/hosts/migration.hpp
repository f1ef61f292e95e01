// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/background_check.hpp"
#include "cmd/hosts/forecast.hpp"
#include "cmd/hosts/leaving_plan.hpp"
#include "cmd/hosts/migrate_request.hpp"
#include "cmd/hosts/plain_store.hpp"
#include "cmd/jobs/open_checkpoint.hpp"
#include "formats/convert/conversion.hpp"
#include "lib/change/change.hpp"
#include "lib/change/piece_parcels.hpp"
#include "lib/core/read_record.hpp"
#include "lib/exec/execute.hpp"
#include "lib/exec/wire/exchange.hpp"
#include "lib/exec/wire/mirror.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpx::cli {

/// The hosts, the host that this rank acts for, and the rank that sends and receives for each host.
struct Team {
    std::vector<Host> hosts;
    std::uint32_t host = 0;
    std::vector<int> rank_of_host;  ///< -1: none

    /// Whether `rank` is the one that sends and receives for its host.
    bool is_first(int rank) const { return rank_of_host[host] == rank; }
};

/// Finds the host that each rank acts for. Throws an mpi::AgreedError (usage) if a process runs on none of the hosts,
/// or if no process runs on a host that is not lost. Collective.
Team team_of(const mpi::Comm& comm, const MigrateRequest& options);

/// Where the state comes from.
struct MigrationSource {
    std::string named;              ///< the path in errors; contains "{host}" if each host has its own folder
    std::filesystem::path folder;   ///< the checkpoint, as this rank opens it
    std::filesystem::path own;      ///< the folder that contains the files of this host
    std::vector<StoredFile> files;  ///< each with the hosts that have it; empty: all hosts read `folder`
    std::shared_ptr<const HeldStore> held = nullptr;  ///< contains `own`, if a keeper holds the state
};

/// Where the new files are written.
enum class MigrateTarget {
    folders,  ///< a plain folder on each host: the files of its ranks
    stores,   ///< a store on each host: the files of its ranks, and replicas
    saving,   ///< a store on each host that remains: its files, and some of those that only leaving hosts have
    shared    ///< shared storage: each file is written by one host
};

/// How --to auto chose the layout.
struct LayoutChoice {
    std::size_t compared = 0;  ///< layouts that were compared
    std::size_t excluded = 0;  ///< layouts that do not fit on the devices, split TP groups, or use excluded techniques
    std::uint64_t crossing = 0;  ///< bytes that the ranks of the chosen layout need from other hosts
};

/// Amounts of data files, with --data-store.
struct DataCopies {
    std::uint64_t files = 0;     ///< of the job
    std::uint64_t bytes = 0;     ///< of these files
    std::uint64_t missing = 0;   ///< bytes missing on hosts with ranks, summed over these hosts
    std::uint64_t crossing = 0;  ///< missing bytes that come from another host
};

/// The cost of planning a migration.
struct Planning {
    double seconds = 0;
    MirrorTraffic metadata;  ///< on rank 0, for node-local stores
};

/// What `tpx migrate` will do, the same on all ranks: which files each host gets, and what hosts send to each other.
struct Migration {
    MigrationSource origin;
    MigrateTarget purpose = MigrateTarget::folders;
    OpenedCheckpoint opened;
    formats::Target target;
    std::optional<LayoutChoice> choice;  ///< with --to auto
    std::optional<LeavingPlan> leaving;  ///< with --within
    Index batch = 0;                     ///< samples of a global batch; 0: unknown
    std::optional<formats::DataPosition> position;
    std::optional<DataCopies> data_copies;  ///< with --data-store
    formats::Conversion conversion;
    std::vector<std::vector<std::uint32_t>> holders;  ///< by source file: the hosts whose stores have it, ascending
    std::vector<std::vector<bool>> files_of_hosts;    ///< by host and file of the draft
    std::vector<std::int32_t> devices;                ///< by new rank, numbered as by first_devices()
    Change change;                                    ///< between hosts; each host counts as one old and one new rank
    std::vector<PieceCell> cells;                     ///< of the parcels
    Planning planning;
    std::optional<Forecast> forecast;  ///< with --dry-run
};

/// The host of each new rank; empty if the ranks are not placed.
std::vector<std::uint32_t> hosts_of_ranks(const Migration& job);

/// Plans the migration of the checkpoint in `origin` to `hosts`. Reads only `origin.folder`, including the files that
/// the draft copies, which become fixed bytes of the draft.
Migration plan_migration(const MigrateRequest& options, const std::vector<Host>& hosts, MigrationSource origin,
                         MigrateTarget purpose);

/// Plans what hosts send each other, so that each host can write its `job.files_of_hosts`: sets the change and cells of
/// `job` from its conversion and holders.
void plan_host_transfers(const MigrateRequest& options, Migration& job, const std::vector<Host>& hosts);

/// Which ranks plan a migration.
enum class Planners {
    all,
    first  ///< rank 0, for a dry run; on other ranks, the Migration is empty
};

/// Opens the files of `mirror` as one checkpoint and plans its migration; all planners get the same plan. Throws an
/// mpi::AgreedError. Collective.
Migration plan_from_mirror(const MigrateRequest& options, const Team& team, Mirror& mirror,
                           const MigrationSource& origin, MigrateTarget purpose, Planners planners = Planners::all);

/// Checks that the plain folders of all hosts contain parts of one checkpoint, as `tpx plan --stores` also requires.
/// Throws an mpi::AgreedError. Returns the check that this rank must still run, which may read all files of its host.
/// Collective.
ContentCheck check_stores(const mpi::Comm& comm, const Migration& job, const Mirror& mirror, const Team& team);

/// A digest of the source files, the plan and `salt`, the same on all ranks and for any number of ranks; `record`
/// contains the files that this host reads. Throws an mpi::AgreedError if the ranks have made different plans.
/// Collective.
std::uint64_t agreed_request_digest(const mpi::Comm& comm, const Migration& job, std::string_view salt,
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

/// The part of host number `host`, for which this rank acts; its inbox will be the file `inbox`.
HostPart part_of_host(const Migration& job, std::uint32_t host, const std::filesystem::path& inbox);

/// What a migration did, on all hosts together, with the bytes of each host.
struct MigrateResult {
    ExecReport report;
    std::vector<std::uint64_t> sent;
    std::vector<std::uint64_t> received;
    std::uint64_t messages = 0;  ///< between hosts
    double seconds = 0;
};

}  // namespace tpx::cli
