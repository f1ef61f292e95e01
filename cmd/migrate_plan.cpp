// SPDX-License-Identifier: Apache-2.0
#include "cmd/migrate.hpp"
#include "cmd/planning.hpp"
#include "formats/holding.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <set>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

// The path of a source's file inside the stores.
fs::path inside(const Mirror& mirror, const fs::path& path) { return path.lexically_relative(mirror.folder()); }

std::vector<std::vector<std::uint32_t>> holders_of(const Mirror& mirror, const Catalogue& catalogue) {
    std::vector<std::vector<std::uint32_t>> holders(catalogue.files.size());
    for (std::uint32_t f = 0; f < holders.size(); ++f) {
        const auto file = std::ranges::find(mirror.files(), inside(mirror, catalogue.path(f)), &StoredFile::path);
        if (file != mirror.files().end()) holders[f].assign(file->hosts.begin(), file->hosts.end());
    }
    return holders;
}

// What hosts hold: a host counts as one old rank.
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

// The files that each rank reads: those with the pieces that it needs in memory. A file that no rank needs belongs to
// the rank that writes it.
std::vector<std::set<std::uint32_t>> files_of_ranks(const Migration& job) {
    const formats::Conversion& conversion = job.conversion;
    const std::vector<Piece> needed = formats::needed_pieces(job.opened.source, conversion, job.target);
    std::vector<std::set<std::uint32_t>> files(static_cast<std::size_t>(job.target.layout.ranks()));
    std::vector<bool> is_read(conversion.draft.files.size());
    for (const Move& move : make_moves(conversion.target_side(), {conversion.target_tensors, needed})) {
        const std::uint32_t file = conversion.target_pieces[move.source].file;
        files[static_cast<std::size_t>(needed[move.target].rank)].insert(file);
        is_read[file] = true;
    }
    for (const Piece& piece : conversion.target_pieces)
        if (!is_read[piece.file]) files[static_cast<std::size_t>(std::max(piece.rank, 0))].insert(piece.file);
    return files;
}

// The pieces of the files of each rank.
std::vector<Piece> pieces_of(const Migration& job, const std::vector<std::set<std::uint32_t>>& files_of_ranks) {
    std::vector<std::vector<std::uint32_t>> by_file(job.conversion.draft.files.size());
    for (std::uint32_t k = 0; k < job.conversion.target_pieces.size(); ++k)
        by_file[job.conversion.target_pieces[k].file].push_back(k);
    std::vector<Piece> pieces;
    for (std::size_t rank = 0; rank < files_of_ranks.size(); ++rank) {
        for (std::uint32_t file : files_of_ranks[rank]) {
            for (std::uint32_t k : by_file[file]) {
                pieces.push_back(job.conversion.target_pieces[k]);
                pieces.back().rank = static_cast<std::int32_t>(rank);
            }
        }
    }
    return pieces;
}

// Each host with new ranks gets their files, and all files without tensor data.
std::vector<std::vector<bool>> files_of_hosts(const Migration& job,
                                              const std::vector<std::set<std::uint32_t>>& files_of_ranks) {
    std::vector<bool> common(job.conversion.draft.files.size(), true);
    for (const Piece& piece : job.conversion.target_pieces) common[piece.file] = false;
    std::vector<std::vector<bool>> files(job.change.hosts.size(), std::vector<bool>(common.size()));
    const std::vector<std::int32_t> firsts = first_devices(job.change.hosts);
    for (std::size_t rank = 0; rank < files_of_ranks.size(); ++rank) {
        const auto next = std::ranges::upper_bound(firsts, job.change.placement.devices[rank]);
        std::vector<bool>& own = files[static_cast<std::size_t>(next - firsts.begin()) - 1];
        for (std::size_t f = 0; f < common.size(); ++f) own[f] = own[f] || common[f];
        for (std::uint32_t file : files_of_ranks[rank]) own[file] = true;
    }
    return files;
}

// Files that are copied as they are lie on some host: their bytes come to all with the metadata.
void take_copies(Draft& draft) {
    constexpr std::uint64_t most = std::uint64_t{1} << 30;
    std::uint64_t sum = 0;
    for (const Draft::Copy& copy : draft.copies) {
        sum += copy.length;
        if (sum > most)
            throw failure("{}: the files that would be copied as they are have more than {} bytes",
                          copy.source.string(), most);
        std::string bytes(copy.length, '\0');
        read_at(open_file(copy.source, O_RDONLY), copy.source_offset, std::as_writable_bytes(std::span{bytes}),
                copy.source);
        draft.fixed.push_back({copy.file, copy.offset, std::move(bytes)});
    }
    draft.copies.clear();
}

Draft draft_of(const Draft& all, const std::vector<bool>& files, std::vector<std::uint32_t>& numbers) {
    Draft draft;
    draft.tensors = all.tensors;
    numbers.assign(files.size(), 0);
    for (std::size_t f = 0; f < files.size(); ++f) {
        if (!files[f]) continue;
        numbers[f] = static_cast<std::uint32_t>(draft.files.size());
        draft.files.push_back(all.files[f]);
    }
    const auto renumbered = [&](auto entry) {
        entry.file = numbers[entry.file];
        return entry;
    };
    std::vector<std::uint32_t> pieces(all.pieces.size(), 0);
    for (std::size_t k = 0; k < all.pieces.size(); ++k) {
        if (!files[all.pieces[k].file]) continue;
        pieces[k] = static_cast<std::uint32_t>(draft.pieces.size());
        draft.pieces.push_back(renumbered(all.pieces[k]));
    }
    for (const Draft::Fixed& fixed : all.fixed)
        if (files[fixed.file]) draft.fixed.push_back(renumbered(fixed));
    for (Draft::CrcSlot slot : all.crc_slots) {
        if (!files[slot.file]) continue;
        slot.piece = pieces[slot.piece];
        draft.crc_slots.push_back(renumbered(slot));
    }
    return draft;
}

}  // namespace

Migration plan_migration(const MigrateOptions& options, std::vector<Host> hosts, const Mirror& mirror) {
    Migration job;
    job.opened = open_checkpoint(mirror.folder(), options.plan);
    formats::Source& source = job.opened.source;
    job.target = given_target(options.plan, options.plan, source);
    check_whole(source.checkpoint.catalogue);
    job.conversion = convert(source, job.target);
    take_copies(job.conversion.draft);
    job.holders = holders_of(mirror, source.checkpoint.catalogue);
    const std::vector<Piece> held = held_by_hosts(job);
    const std::vector<std::set<std::uint32_t>> files = files_of_ranks(job);
    const std::vector<Piece> needed = pieces_of(job, files);
    const Side before{job.conversion.source_tensors, held}, after{job.conversion.target_tensors, needed};
    const int old_ranks = static_cast<int>(hosts.size()), new_ranks = job.target.layout.ranks();
    std::vector<Seat> seats;
    for (std::int32_t h = 0; h < old_ranks; ++h) seats.push_back(hosts[h].lost ? Seat{} : Seat{h, -1});
    ChangeOptions change = change_options(options.plan);
    change.state = StateIn::stores;
    change.group = tp_span(job.target.layout);
    job.change = make_change(parcels_of(before, after, {}, {"state"}, old_ranks, new_ranks), std::move(hosts),
                             std::move(seats), std::move(change));
    job.cells = cells_of(before, after, {}, {"state"}, old_ranks, new_ranks);
    job.files_of_hosts = files_of_hosts(job, files);
    return job;
}

HostPart part_of_host(const Migration& job, const Mirror& mirror, std::uint32_t host, const fs::path& store,
                      const fs::path& inbox) {
    const formats::Conversion& conversion = job.conversion;
    std::vector<std::uint32_t> numbers;
    HostPart part{.draft = draft_of(conversion.draft, job.files_of_hosts[host], numbers),
                  .inbox = {job.change.parcels, job.change.relocation.transfers, host}};
    for (const Piece& piece : conversion.source_pieces)
        if (std::ranges::binary_search(job.holders[piece.file], host)) part.held.push_back(piece);
    part.files = formats::paths(job.opened.source.checkpoint.catalogue);
    for (SourceFile& file : part.files) file.path = store / inside(mirror, file.path);
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
