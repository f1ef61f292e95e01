// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migrate_assignment.hpp"
#include "cmd/hosts/migrate_auto.hpp"
#include "cmd/hosts/migrate_data.hpp"
#include "cmd/hosts/migrate_files.hpp"
#include "cmd/hosts/migration.hpp"
#include "cmd/jobs/draft_part.hpp"
#include "cmd/plan/planning.hpp"
#include "formats/files/merged_stores.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <set>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

// The path of a source file, relative to the folder of the source.
fs::path inside(const MigrationSource& origin, const fs::path& path) { return path.lexically_relative(origin.folder); }

std::vector<std::vector<std::uint32_t>> holders_of(const MigrationSource& origin, const Catalogue& catalogue,
                                                   std::span<const Host> hosts) {
    std::vector<std::vector<std::uint32_t>> holders(catalogue.files.size());
    for (std::uint32_t f = 0; f < holders.size(); ++f) {
        if (origin.files.empty()) {
            for (std::uint32_t h = 0; h < hosts.size(); ++h)
                if (!hosts[h].lost) holders[f].push_back(h);
            continue;
        }
        const auto file = std::ranges::find(origin.files, inside(origin, catalogue.path(f)), &StoredFile::path);
        if (file != origin.files.end()) holders[f].assign(file->hosts.begin(), file->hosts.end());
    }
    return holders;
}

// The pieces that hosts hold; each host counts as one old rank.
std::vector<Piece> held_by_hosts(const Migration& job) {
    std::vector<Piece> held;
    for (Piece piece : job.conversion.source_pieces) {
        for (std::uint32_t host : job.holders[piece.file]) {
            piece.rank = static_cast<std::int32_t>(host);
            held.push_back(piece);
        }
    }
    return held;
}

std::vector<RankLocation> rank_locations_of(std::span<const Host> hosts) {
    std::vector<RankLocation> rank_locations;
    for (std::int32_t h = 0; h < std::ssize(hosts); ++h)
        rank_locations.push_back(hosts[h].lost ? RankLocation{} : RankLocation{h, -1});
    return rank_locations;
}

ChangeOptions options_of(const MigrateRequest& options) {
    ChangeOptions change = change_options(options.plan);
    change.state = StateMedium::stores;
    return change;
}

// The device of each new rank.
std::vector<std::int32_t> placed_ranks(const MigrateRequest& options, const Migration& job,
                                       const std::vector<Host>& hosts, std::span<const Piece> held,
                                       const std::vector<std::set<std::uint32_t>>& files) {
    const std::vector<Piece> needed = pieces_of_ranks(job, files);
    ChangeOptions change = options_of(options);
    change.group = tp_span(job.target.layout);
    change.in_rounds = false;
    Parcels parcels = parcels_of({job.conversion.source_tensors, held}, {job.conversion.target_tensors, needed}, {},
                                 {Role::state}, static_cast<int>(hosts.size()), job.target.layout.ranks());
    return make_change(std::move(parcels), hosts, rank_locations_of(hosts), std::move(change)).placement.devices;
}

// Sets the device of each new rank and, with --assignment, the virtual nodes that it runs.
void place_ranks(const MigrateRequest& options, Migration& job, const std::vector<Host>& hosts,
                 std::span<const Piece> held, const std::vector<std::set<std::uint32_t>>& files) {
    if (!options.assigned) {
        job.devices = placed_ranks(options, job, hosts, held, files);
        return;
    }
    std::vector<std::uint64_t> bytes(hosts.size());
    for (const Piece& piece : held)
        bytes[static_cast<std::size_t>(piece.rank)] +=
            static_cast<std::uint64_t>(volume(piece.box) * itemsize(job.conversion.source_tensors[piece.tensor].dtype));
    const std::vector<Host> used = assigned_hosts(*options.assigned, job.target.layout, hosts, bytes);
    job.devices = placed_ranks(options, job, used, held, files);
    assign_virtual_nodes(job, *options.assigned, hosts);
}

// Each host that gets tensor data counts as one new rank, on its first device that is not lost.
Placement one_rank_each(std::span<const Host> hosts, const std::vector<std::uint32_t>& members) {
    Placement placement{.placed_for = PlacementGoal::order};
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    for (std::uint32_t host : members) {
        int device = 0;
        while (device + 1 < hosts[host].gpus && is_lost(hosts[host], device)) ++device;
        const auto rank = static_cast<std::int32_t>(placement.devices.size());
        placement.devices.push_back(firsts[host] + device);
        placement.blocks.push_back({.begin = rank, .end = rank + 1, .host = host});
    }
    return placement;
}

// Plans what hosts send each other, so that each host can write the files that it gets.
void plan_transfers(const MigrateRequest& options, Migration& job, std::vector<Host> hosts,
                    std::span<const Piece> held) {
    std::vector<Piece> needed;
    std::vector<std::uint32_t> members;
    for (std::uint32_t h = 0; h < hosts.size(); ++h) {
        const std::size_t before = needed.size();
        for (Piece piece : job.conversion.target_pieces) {
            if (!job.files_of_hosts[h][piece.file]) continue;
            piece.rank = static_cast<std::int32_t>(members.size());
            needed.push_back(piece);
        }
        if (needed.size() > before) members.push_back(h);
    }
    const Side before{job.conversion.source_tensors, held}, after{job.conversion.target_tensors, needed};
    const auto old_ranks = static_cast<int>(hosts.size()), new_ranks = static_cast<int>(members.size());
    ChangeOptions change = options_of(options);
    change.placement = one_rank_each(hosts, members);
    std::vector<RankLocation> rank_locations = rank_locations_of(hosts);
    job.change = make_change(parcels_of(before, after, {}, {Role::state}, old_ranks, new_ranks), std::move(hosts),
                             std::move(rank_locations), std::move(change));
    job.cells = cells_of(before, after, {}, {Role::state}, old_ranks, new_ranks);
}

// Reads the files that are copied unchanged, and adds their bytes to the draft: only some hosts have these files, but
// all hosts get their bytes with the metadata.
void take_copies(Draft& draft) {
    constexpr std::uint64_t most = std::uint64_t{1} << 30;
    std::uint64_t sum = 0;
    for (const Draft::Copy& copy : draft.copies) {
        sum += copy.length;
        if (sum > most)
            throw failure("{}: the files to be copied unchanged have more than {} bytes", copy.source.string(), most);
        std::string bytes(copy.length, '\0');
        read_at(open_file(copy.source, O_RDONLY), copy.source_offset, std::as_writable_bytes(std::span{bytes}),
                copy.source);
        draft.fixed.push_back({copy.file, copy.offset, std::move(bytes)});
    }
    draft.copies.clear();
}

// The layout of the source, in the syntax of --to.
std::string known_layout(const formats::Source& source) {
    if (!source.layout)
        throw Error{Exit::usage, "{}: its layout is unknown; pass --to LAYOUT",
                    source.checkpoint.catalogue.directory.string()};
    return to_string(*source.layout);
}

}  // namespace

Migration plan_migration(const MigrateRequest& options, const std::vector<Host>& hosts, MigrationSource origin,
                         MigrateTarget purpose) {
    const auto start = std::chrono::steady_clock::now();
    Migration job{.origin = std::move(origin), .purpose = purpose};
    job.opened = open_checkpoint(job.origin.folder, options.plan);
    formats::Source& source = job.opened.source;
    TargetOptions target = options.plan;
    job.holders = holders_of(job.origin, source.checkpoint.catalogue, hosts);
    if (target.to.empty()) target.to = known_layout(source);
    if (target.to == "auto") target.to = choose_layout(options, hosts, job);
    job.target = target_from_options(target, options.plan, source);
    job.target.split_by_holders = purpose != MigrateTarget::shared;
    add_data(job, options);
    check_no_holes(source.checkpoint.catalogue);
    job.conversion = convert(source, job.target);
    job.holders = formats::with_computed_files(std::move(job.holders), source.checkpoint.catalogue);
    take_copies(job.conversion.draft);
    const std::vector<Piece> held = held_by_hosts(job);
    std::vector<std::set<std::uint32_t>> files;
    if (purpose == MigrateTarget::folders || purpose == MigrateTarget::stores) {
        files = files_of_ranks(job);
        place_ranks(options, job, hosts, held, files);
    }
    if (job.position) add_data_file(job);  // its content depends on the virtual nodes of the ranks
    if (purpose == MigrateTarget::shared) {
        job.files_of_hosts = files_to_export(job, hosts, held);
    } else if (purpose == MigrateTarget::saving) {
        job.files_of_hosts = files_to_save(job, hosts, held);
    } else {
        job.files_of_hosts = files_of_hosts(job, hosts, files);
        add_replicas(job.files_of_hosts, hosts, job.conversion.draft, static_cast<int>(options.replicas.value_or(1)));
    }
    plan_transfers(options, job, hosts, held);
    job.planning.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return job;
}

void plan_host_transfers(const MigrateRequest& options, Migration& job, const std::vector<Host>& hosts) {
    plan_transfers(options, job, hosts, held_by_hosts(job));
}

HostPart part_of_host(const Migration& job, std::uint32_t host, const fs::path& inbox) {
    const formats::Conversion& conversion = job.conversion;
    std::vector<std::uint32_t> numbers;
    HostPart part{.draft = part_of_draft(conversion.draft, job.files_of_hosts[host], numbers),
                  .inbox = {job.change.parcels, job.change.relocation.transfers, host}};
    for (const Piece& piece : conversion.source_pieces)
        if (std::ranges::binary_search(job.holders[piece.file], host)) part.held.push_back(piece);
    part.files = formats::paths(job.opened.source.checkpoint.catalogue);
    if (job.origin.own != job.origin.folder)
        for (SourceFile& file : part.files) file.path = job.origin.own / inside(job.origin, file.path);
    part.sources = part.held;
    const std::vector<Piece> received = part.inbox.pieces(job.cells, static_cast<std::uint32_t>(part.files.size()));
    part.sources.insert(part.sources.end(), received.begin(), received.end());
    part.files.push_back({inbox});
    for (Piece piece : conversion.target_pieces) {
        if (!job.files_of_hosts[host][piece.file]) continue;
        piece.file = numbers[piece.file];
        part.targets.push_back(piece);
    }
    part.moves = make_moves({conversion.source_tensors, part.sources}, {conversion.target_tensors, part.targets});
    return part;
}

}  // namespace tpx::cli
