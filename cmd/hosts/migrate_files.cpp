// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migrate_files.hpp"

#include "formats/convert/rank_holdings.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tpx::cli {
namespace {

/// By file of the draft: whether it contains no tensor data.
std::vector<bool> without_pieces(const Migration& job) {
    std::vector<bool> files(job.conversion.draft.files.size(), true);
    for (const Piece& piece : job.conversion.target_pieces) files[piece.file] = false;
    return files;
}

/// The host that gets the next copy of files that the hosts in `has` keep, or hosts.size() if there is none. Of the
/// other hosts that remain, it prefers hosts in another switch group, then those with the least load, then those that
/// follow `anchor`.
std::size_t host_for_copy(std::span<const Host> hosts, const std::vector<std::uint32_t>& groups,
                          const std::vector<bool>& has, std::size_t anchor, const std::vector<std::uint64_t>& load) {
    std::size_t best = hosts.size();
    const auto preference = [&](std::size_t h) {
        bool shares_group = false;
        for (std::size_t other = 0; other < hosts.size(); ++other)
            shares_group = shares_group || (has[other] && groups[other] == groups[h]);
        return std::tuple{shares_group, load[h], (h + hosts.size() - anchor) % hosts.size()};
    };
    for (std::size_t h = 0; h < hosts.size(); ++h)
        if (!has[h] && has_live_devices(hosts[h]) && (best == hosts.size() || preference(h) < preference(best)))
            best = h;
    return best;
}

/// Whether all hosts in `has` are in one switch group.
bool are_in_one_group(const std::vector<bool>& has, const std::vector<std::uint32_t>& groups) {
    const auto first = static_cast<std::size_t>(std::ranges::find(has, true) - has.begin());
    for (std::size_t h = first; h < has.size(); ++h)
        if (has[h] && groups[h] != groups[first]) return false;
    return true;
}

/// The hosts that have a file.
std::vector<bool> hosts_of_file(const std::vector<std::vector<bool>>& files, std::size_t file) {
    std::vector<bool> has;
    for (const std::vector<bool>& own : files) has.push_back(own[file]);
    return has;
}

/// By host: the hosts that get copies of its files. A file counts for the first host that has it. If each file had its
/// copies on arbitrary hosts, almost every pair of hosts would keep the only two copies of some file, and the loss of
/// any two hosts would lose data.
std::vector<std::vector<std::size_t>> partners_of(const std::vector<std::vector<bool>>& files,
                                                  std::span<const Host> hosts, const Draft& draft, int copies) {
    const std::vector<std::uint32_t> groups = switch_groups(hosts);
    std::vector<std::uint64_t> load(hosts.size()), to_copy(hosts.size());
    for (std::size_t f = 0; f < draft.files.size(); ++f) {
        const std::vector<bool> has = hosts_of_file(files, f);
        for (std::size_t h = 0; h < hosts.size(); ++h)
            if (has[h]) load[h] += draft.files[f].size;
        const auto first = static_cast<std::size_t>(std::ranges::find(has, true) - has.begin());
        if (first < hosts.size() && std::ranges::count(has, true) < copies) to_copy[first] += draft.files[f].size;
    }
    std::vector<std::size_t> order(hosts.size());  // largest first, which balances the loads
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater{}, [&](std::size_t h) { return to_copy[h]; });
    std::vector<std::vector<std::size_t>> partners(hosts.size());
    for (int copy = 1; copy < copies; ++copy) {
        for (std::size_t anchor : order) {
            std::vector<bool> has(hosts.size());
            has[anchor] = true;
            for (std::size_t partner : partners[anchor]) has[partner] = true;
            const std::size_t host = host_for_copy(hosts, groups, has, anchor, load);
            if (host == hosts.size()) continue;
            partners[anchor].push_back(host);
            load[host] += to_copy[anchor];
        }
    }
    return partners;
}

/// By file of the draft and by host: the bytes of the file that the host has.
std::vector<std::vector<std::uint64_t>> bytes_of_files(const Migration& job, std::span<const Host> hosts,
                                                       std::span<const Piece> held) {
    const formats::Conversion& conversion = job.conversion;
    const std::size_t count = conversion.draft.files.size();
    std::vector<Piece> needed = conversion.target_pieces;  // each file counts as one new rank
    for (Piece& piece : needed) piece.rank = static_cast<std::int32_t>(piece.file);
    const Parcels parcels = parcels_of({conversion.source_tensors, held}, {conversion.target_tensors, needed}, {},
                                       {Role::state}, static_cast<int>(hosts.size()), static_cast<int>(count));
    std::vector<std::vector<std::uint64_t>> here(count, std::vector<std::uint64_t>(hosts.size()));
    for (const Parcel& parcel : parcels.parcels)
        for (std::int32_t file : parcels.needers[parcel.needers])
            for (std::int32_t host : parcels.holders[parcel.holders]) here[file][host] += parcel.bytes;
    return here;
}

/// The host, of those that `may` write, with the most bytes; of several, the one with the least load. hosts.size() if
/// there is none.
template <class May>
std::size_t host_with_most(const std::vector<std::uint64_t>& bytes, const std::vector<std::uint64_t>& load, May&& may) {
    std::size_t best = bytes.size();
    for (std::size_t h = 0; h < bytes.size(); ++h) {
        if (!may(h)) continue;
        if (best == bytes.size() || bytes[h] > bytes[best] || (bytes[h] == bytes[best] && load[h] < load[best]))
            best = h;
    }
    return best;
}

/// Bytes of a target piece in the dtype that its tensor has in the source.
std::uint64_t bytes_of(const Migration& job, const Piece& piece) {
    return static_cast<std::uint64_t>(volume(piece.box) * itemsize(job.conversion.source_tensors[piece.tensor].dtype));
}

}  // namespace

bool has_live_devices(const Host& host) { return !host.lost && free_devices(host) > 0; }

std::vector<std::set<std::uint32_t>> files_of_ranks(const Migration& job) {
    const formats::Conversion& conversion = job.conversion;
    const std::vector<Piece> needed = formats::needed_pieces(job.opened.source, conversion, job.target).pieces;
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

std::vector<Piece> pieces_of_ranks(const Migration& job, const std::vector<std::set<std::uint32_t>>& files) {
    std::vector<std::vector<std::uint32_t>> by_file(job.conversion.draft.files.size());
    for (std::uint32_t k = 0; k < job.conversion.target_pieces.size(); ++k)
        by_file[job.conversion.target_pieces[k].file].push_back(k);
    std::vector<Piece> pieces;
    for (std::size_t rank = 0; rank < files.size(); ++rank) {
        for (std::uint32_t file : files[rank]) {
            for (std::uint32_t k : by_file[file]) {
                pieces.push_back(job.conversion.target_pieces[k]);
                pieces.back().rank = static_cast<std::int32_t>(rank);
            }
        }
    }
    return pieces;
}

std::vector<std::uint32_t> hosts_of_ranks(const Migration& job) {
    const std::vector<std::int32_t> firsts = first_devices(job.change.hosts);
    std::vector<std::uint32_t> hosts;
    for (std::int32_t device : job.devices)
        hosts.push_back(static_cast<std::uint32_t>(std::ranges::upper_bound(firsts, device) - firsts.begin()) - 1);
    return hosts;
}

std::vector<std::vector<bool>> files_of_hosts(const Migration& job, std::span<const Host> hosts,
                                              const std::vector<std::set<std::uint32_t>>& files_of_ranks) {
    const std::vector<bool> common = without_pieces(job);
    std::vector<std::vector<bool>> files(hosts.size(), std::vector<bool>(common.size()));
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    const auto add_common = [&](std::vector<bool>& own) {
        for (std::size_t f = 0; f < common.size(); ++f) own[f] = own[f] || common[f];
    };
    for (std::size_t rank = 0; rank < files_of_ranks.size(); ++rank) {
        const auto next = std::ranges::upper_bound(firsts, job.devices[rank]);
        std::vector<bool>& own = files[static_cast<std::size_t>(next - firsts.begin()) - 1];
        add_common(own);
        for (std::uint32_t file : files_of_ranks[rank]) own[file] = true;
    }
    for (std::size_t h = 0; h < hosts.size(); ++h)
        if (job.purpose == MigrateTarget::stores && has_live_devices(hosts[h])) add_common(files[h]);
    return files;
}

void require_hosts(int copies, int hosts) {
    if (hosts < copies)
        throw Error{Exit::usage, "--replicas {}: only {} can keep files; add hosts or use fewer replicas", copies,
                    counted(static_cast<std::size_t>(hosts), "host")};
}

void add_replicas(std::vector<std::vector<bool>>& files, std::span<const Host> hosts, const Draft& draft, int copies) {
    require_hosts(copies, static_cast<int>(std::ranges::count_if(hosts, has_live_devices)));
    const auto partners = partners_of(files, hosts, draft, copies);
    const std::vector<std::uint32_t> groups = switch_groups(hosts);
    const std::vector<std::uint64_t> no_load(hosts.size());
    for (std::size_t f = 0; f < draft.files.size(); ++f) {
        std::vector<bool> has = hosts_of_file(files, f);
        const auto first = static_cast<std::size_t>(std::ranges::find(has, true) - has.begin());
        std::vector<std::size_t> choice = first < hosts.size() ? partners[first] : std::vector<std::size_t>{};
        std::erase_if(choice, [&](std::size_t h) { return has[h]; });
        std::size_t next = 0;
        for (auto k = std::ranges::count(has, true); k < copies; ++k) {
            const std::size_t host =
                next < choice.size() ? choice[next++] : host_for_copy(hosts, groups, has, first, no_load);
            has[host] = files[host][f] = true;
        }
        // The copies that the layout itself needs can all be in one switch group.
        if (copies < 2 || !are_in_one_group(has, groups)) continue;
        const std::size_t host = host_for_copy(hosts, groups, has, first, no_load);
        if (host == hosts.size()) continue;
        has[host] = true;
        files[host][f] = !are_in_one_group(has, groups);
    }
}

std::vector<std::vector<bool>> files_to_export(const Migration& job, std::span<const Host> hosts,
                                               std::span<const Piece> held) {
    const auto here = bytes_of_files(job, hosts, held);
    std::vector<std::vector<bool>> files(hosts.size(), std::vector<bool>(here.size()));
    std::vector<std::uint64_t> load(hosts.size());
    for (std::size_t f = 0; f < here.size(); ++f) {
        const std::size_t best = host_with_most(here[f], load, [&](std::size_t h) { return !hosts[h].lost; });
        files[best][f] = true;
        load[best] += job.conversion.draft.files[f].size;
    }
    return files;
}

std::vector<std::vector<bool>> files_to_save(const Migration& job, std::span<const Host> hosts,
                                             std::span<const Piece> held) {
    const auto here = bytes_of_files(job, hosts, held);
    const std::vector<bool> common = without_pieces(job);
    std::vector<std::uint64_t> sizes(here.size());
    for (const Piece& piece : job.conversion.target_pieces) sizes[piece.file] += bytes_of(job, piece);
    std::vector<std::vector<bool>> files(hosts.size(), std::vector<bool>(here.size()));
    std::vector<std::uint64_t> load(hosts.size());
    const auto stays = [&](std::size_t h) { return has_live_devices(hosts[h]); };
    for (std::size_t f = 0; f < here.size(); ++f) {
        bool is_there = false;
        for (std::size_t h = 0; h < hosts.size(); ++h) {
            files[h][f] = stays(h) && (common[f] || here[f][h] == sizes[f]);
            is_there = is_there || files[h][f];
        }
        if (is_there) continue;
        const std::size_t best = host_with_most(here[f], load, stays);
        if (best == hosts.size()) throw usage_error("no host remains that could save the state of leaving hosts");
        files[best][f] = true;
        load[best] += sizes[f];
    }
    return files;
}

}  // namespace tpx::cli
