// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/hosts_plan.hpp"

#include "cmd/hold/draft_owners.hpp"
#include "cmd/hold/place_on_gpus.hpp"
#include "cmd/hold/ranks_of_hosts.hpp"
#include "cmd/hold/spread_senders.hpp"
#include "cmd/jobs/draft_part.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/exec/device/move_copies.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

/// The values of --ranks of all hosts as one list; empty if a host has none.
std::string joined_ranks(std::span<const std::string> ranks) {
    if (std::ranges::find(ranks, "") != ranks.end()) return "";
    return fmt::format("{}", fmt::join(ranks, ","));
}

std::vector<std::vector<int>> placed_ranks(std::span<const std::string> ranks, const Layout& layout) {
    std::vector<std::optional<std::vector<int>>> given;
    for (const std::string& text : ranks) {
        given.emplace_back();
        if (!text.empty()) given.back() = held_ranks(text, layout);
    }
    return ranks_of_hosts(given, layout.ranks());
}

std::vector<std::vector<int>> holders_of(const Catalogue& catalogue, const fs::path& folder,
                                         std::span<const StoredFile> files) {
    std::map<fs::path, std::vector<int>> known;
    for (const StoredFile& file : files) known[file.path] = file.hosts;
    std::vector<std::vector<int>> holders;
    for (std::uint32_t file = 0; file < catalogue.files.size(); ++file)
        holders.push_back(known.at(catalogue.path(file).lexically_relative(folder)));
    return holders;
}

/// The hosts of the files of ranks, by name.
std::map<fs::path, int> hosts_by_file(const std::vector<std::vector<int>>& ranks) {
    std::map<fs::path, int> hosts;
    for (std::size_t host = 0; host < ranks.size(); ++host)
        for (const int rank : ranks[host])
            for (const std::string& name : {segment_name(rank), document_name(rank)})
                hosts[name] = static_cast<int>(host);
    return hosts;
}

/// The host that gets each file of a draft; host 0 for files that belong to no rank.
std::vector<Endpoint> places_of(const Draft& draft, const std::vector<std::vector<int>>& ranks) {
    const std::map<fs::path, int> hosts = hosts_by_file(ranks);
    std::vector<Endpoint> places;
    for (const FileEntry& file : draft.files) {
        const auto host = hosts.find(file.path);
        places.push_back({host == hosts.end() ? 0 : host->second, -1});
    }
    return places;
}

/// Reads the bytes that the draft copies, and replaces the copies by fixed bytes. Each range of a source file is read
/// once, because the files of all ranks contain copies of the same objects.
void read_copied_bytes(Draft& draft) {
    constexpr std::uint64_t most = std::uint64_t{1} << 30;
    std::map<std::tuple<fs::path, std::uint64_t, std::uint64_t>, std::string> known;
    std::uint64_t sum = 0;
    for (const Draft::Copy& copy : draft.copies) {
        sum += copy.length;
        if (sum > most) throw failure("the non-tensor values of all ranks have more than {} bytes", most);
        const auto [entry, is_new] = known.try_emplace({copy.source, copy.source_offset, copy.length});
        std::string& bytes = entry->second;
        if (is_new) {
            bytes.resize(copy.length);
            read_at(open_file(copy.source, O_RDONLY), copy.source_offset, std::as_writable_bytes(std::span{bytes}),
                    copy.source);
        }
        draft.fixed.push_back({copy.file, copy.offset, bytes});
    }
    draft.copies.clear();
}

/// Throws Error unless rounds support all moves between hosts.
void check_can_carry(const HostsPlan& plan) {
    const formats::Conversion& conversion = plan.hold.job.conversion;
    for (const Move& move : plan.carried) {
        const Piece& piece = conversion.source_pieces[move.source];
        const Tensor &from = conversion.source_tensors[piece.tensor],
                     &to = conversion.target_tensors[conversion.target_pieces[move.target].tensor];
        if (plan.is_computed(piece.file))
            throw failure(
                "tensor '{}': its values must be computed before they are sent to another host; use tpx migrate",
                to.name);
        if (!can_copy(move, conversion.source_side(), conversion.target_side()))
            throw failure(
                "tensor '{}': elements from another host cannot be cast from {} to {}; hold the state without --dtype, "
                "or use tpx migrate",
                to.name, name(from.dtype), name(to.dtype));
    }
}

}  // namespace

RoundsJob HostsPlan::rounds_job() const {
    const formats::Conversion& conversion = hold.job.conversion;
    return {carried, conversion.source_side(), conversion.target_side(), senders, target_files};
}

std::set<std::uint32_t> HostsPlan::files_sent(const Endpoint& sender) const {
    std::set<std::uint32_t> files;
    for (std::size_t k = 0; k < carried.size(); ++k)
        if (senders[k] == sender) files.insert(hold.job.conversion.source_pieces[carried[k].source].file);
    return files;
}

void set_moves(HostsPlan& plan, const EndpointDistance& distance, std::span<const double> nics) {
    const formats::Conversion& conversion = plan.hold.job.conversion;
    const auto of_pieces = [&](std::uint32_t source, std::uint32_t target) {
        const std::uint32_t file = conversion.source_pieces[source].file;
        const Endpoint& to = plan.target_files[conversion.target_pieces[target].file];
        if (plan.has_source(to.host, {source, target, {}})) return distance(plan.source_endpoint(to.host, file), to);
        int least = std::numeric_limits<int>::max();
        for (const int host : plan.holders[file])
            least = std::min(least, distance(plan.sender_endpoint(host, file), to));
        return least;
    };
    plan.moves = make_moves(conversion.source_side(), conversion.target_side(), of_pieces);
    spread_senders(plan, distance, nics);
    check_can_carry(plan);
}

bool HostsPlan::is_computed(std::uint32_t file) const {
    return hold.job.opened.source.checkpoint.catalogue.files[file].coding != nullptr;
}

int HostsPlan::host_of(std::uint32_t target) const {
    return target_files[hold.job.conversion.target_pieces[target].file].host;
}

bool HostsPlan::has_source(int host, const Move& move) const {
    return std::ranges::binary_search(holders[hold.job.conversion.source_pieces[move.source].file], host);
}

HostsPlan plan_hosts(const HoldOptions& given, const fs::path& folder, std::span<const StoredFile> files,
                     std::span<const std::string> ranks) {
    HoldOptions options = given;
    options.checkpoint = folder.string();
    options.ranks = joined_ranks(ranks);
    HostsPlan plan{.hold = prepare_hold(options)};
    formats::Conversion& conversion = plan.hold.job.conversion;
    read_copied_bytes(conversion.draft);
    plan.ranks = placed_ranks(ranks, plan.hold.job.target.layout);
    plan.holders = holders_of(plan.hold.job.opened.source.checkpoint.catalogue, folder, files);
    plan.source_gpus.assign(plan.ranks.size(), std::vector<int>(plan.holders.size(), -1));
    plan.sender_gpus = plan.source_gpus;
    plan.target_files = places_of(conversion.draft, plan.ranks);
    set_moves(plan, [](const Endpoint& from, const Endpoint& to) { return from.host == to.host ? 0 : 1; });
    return plan;
}

std::vector<Claim> claims_of(const HostsPlan& plan) {
    const formats::Conversion& conversion = plan.hold.job.conversion;
    Fingerprint print;
    print.add(to_string(plan.hold.job.target.layout));
    for (const std::vector<int>& ranks : plan.ranks) print.add(fmt::format("{}", fmt::join(ranks, ",")));
    for (const Piece& piece : conversion.source_pieces) {
        print.add(piece.file);
        print.add(piece.offset);
    }
    for (const Piece& piece : conversion.target_pieces) {
        print.add(piece.file);
        print.add(piece.offset);
    }
    for (const Move& move : plan.moves) {
        print.add(move.source);
        print.add(move.target);
        print.add(move.box);
    }
    for (const Endpoint& sender : plan.senders) {
        print.add(static_cast<std::uint64_t>(sender.host));
        print.add(static_cast<std::uint64_t>(sender.gpu));
    }
    for (const Draft::Fixed& fixed : conversion.draft.fixed) print.add(fixed.bytes);
    return {{"the plan", std::to_string(print.value()), {}}};
}

namespace {

/// The elements of a move as a piece of the target file.
Piece piece_of(const formats::Conversion& conversion, const Move& move) {
    Piece piece = conversion.target_pieces[move.target];
    piece.offset = place_of(piece, move.box, itemsize(conversion.target_tensors[piece.tensor].dtype)).offset;
    piece.box = move.box;
    return piece;
}

/// For each file of the draft, whether a host gets it: the files of its ranks and, if it has ranks, files of no rank.
std::vector<bool> files_of(const HostsPlan& plan, int host) {
    const std::map<fs::path, int> hosts = hosts_by_file(plan.ranks);
    const bool has_ranks = !plan.ranks[static_cast<std::size_t>(host)].empty();
    std::vector<bool> files;
    for (const FileEntry& file : plan.hold.job.conversion.draft.files) {
        const auto found = hosts.find(file.path);
        files.push_back(found == hosts.end() ? has_ranks : found->second == host);
    }
    return files;
}

/// The pieces of a draft that contain `pieces`, ascending.
std::vector<std::uint32_t> sorted_owners(const Draft& draft, std::span<const Piece> pieces) {
    std::vector<std::uint32_t> found = owners(draft, pieces);
    std::ranges::sort(found);
    found.erase(std::ranges::unique(found).begin(), found.end());
    return found;
}

}  // namespace

HostShare share_of(const HostsPlan& plan, int host, const GpuPlaces& places) {
    const formats::Conversion& conversion = plan.hold.job.conversion;
    const std::vector<bool> files = files_of(plan, host);
    HostShare share;
    std::vector<std::uint32_t> numbers;
    share.draft = part_of_draft(conversion.draft, files, numbers);
    for (std::uint32_t file = 0; file < files.size(); ++file)
        if (files[file]) share.own.push_back(file);
    share.bytes = bytes_in_memory(share.draft);
    const std::vector<int> source_gpus = gpus_of_sources(plan, places), target_gpus = gpus_of_targets(plan, places);
    std::vector<Piece> filled;
    for (std::uint32_t k = 0; k < plan.moves.size(); ++k) {
        const Move& move = plan.moves[k];
        Piece piece = piece_of(conversion, move);
        if (!files[piece.file] || empty(move.box)) continue;
        const bool is_here = plan.has_source(host, move);
        const Endpoint from{host, source_gpus[conversion.source_pieces[move.source].file]},
            to{host, target_gpus[piece.file]};
        const bool is_copied = is_here && link_between(from, to, places.links).kind < LinkClass::host_memory &&
                               can_copy(move, conversion.source_side(), conversion.target_side());
        piece.file = numbers[piece.file];
        if (is_copied) share.copied.push_back(k);
        if (!is_here || is_copied) {
            filled.push_back(piece);
            continue;
        }
        share.moves.push_back({move.source, static_cast<std::uint32_t>(share.targets.size()), move.box});
        share.targets.push_back(piece);
    }
    share.filled = sorted_owners(share.draft, filled);
    share.read = sorted_owners(share.draft, share.targets);
    for (const std::uint32_t piece : share.filled)
        if (target_gpus[share.own[share.draft.pieces[piece].file]] >= 0 &&
            !std::ranges::binary_search(share.read, piece))
            share.saved += payload_of(share.draft, share.draft.pieces[piece]);
    return share;
}

}  // namespace tpx::cli
