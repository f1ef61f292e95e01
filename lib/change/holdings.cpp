// SPDX-License-Identifier: Apache-2.0
#include "lib/change/holdings.hpp"

#include <algorithm>

namespace tpx {

Holdings::Holdings(std::span<const Piece> pieces, std::span<const std::uint32_t> ids)
    : atoms_{(group(pieces, ids), make_atoms())} {}

void Holdings::group(std::span<const Piece> pieces, std::span<const std::uint32_t> ids) {
    for (std::uint32_t id : ids) {
        const Piece& piece = pieces[id];
        const bool fresh = groups_.empty() || groups_.back().box != piece.box;
        const auto at = static_cast<std::uint32_t>(ranks_.size());
        if (fresh) groups_.push_back({piece.box, at, at});
        if (!fresh && ranks_.back() == piece.rank) continue;
        ranks_.push_back(piece.rank);
        ++groups_.back().end;
    }
}

/// The atoms of a cluster of groups that overlap, directly or through others.
std::vector<Holdings::Atom> Holdings::split(const std::vector<std::uint32_t>& cluster) const {
    std::vector<Atom> atoms;
    std::vector<Box> rest;
    std::vector<Box> scratch;
    for (std::uint32_t number : cluster) {
        const Box& box = groups_[number].box;
        std::vector<Atom> next;
        rest.assign(1, box);
        for (Atom& atom : atoms) {
            if (!overlap(atom.box, box)) {
                next.push_back(std::move(atom));
                continue;
            }
            carve(rest, atom.box, scratch);
            scratch.clear();
            subtract(atom.box, box, scratch);
            for (const Box& outside : scratch) next.push_back({outside, atom.groups});
            atom.box = intersect(atom.box, box);
            atom.groups.push_back(number);
            next.push_back(std::move(atom));
        }
        for (const Box& fresh : rest) next.push_back({fresh, {number}});
        atoms = std::move(next);
    }
    return atoms;
}

std::vector<Box> Holdings::make_atoms() {
    std::vector<Box> boxes;
    for (const ReplicaBox& one : groups_) boxes.push_back(one.box);
    const BoxIndex index{std::move(boxes)};
    std::vector<Box> atoms;
    std::vector<bool> seen(groups_.size(), false);
    std::vector<std::uint32_t> cluster;
    std::vector<std::uint32_t> near;
    for (std::uint32_t first = 0; first < groups_.size(); ++first) {
        if (seen[first]) continue;
        seen[first] = true;
        cluster.assign(1, first);
        for (std::size_t i = 0; i < cluster.size(); ++i) {
            index.overlapping(groups_[cluster[i]].box, near);
            for (std::uint32_t other : near) {
                if (!seen[other]) cluster.push_back(other);
                seen[other] = true;
            }
        }
        for (Atom& atom : split(cluster)) {
            atoms.push_back(atom.box);
            groups_of_.push_back(std::move(atom.groups));
        }
    }
    sets_.assign(atoms.size(), no_set);
    return atoms;
}

std::uint32_t Holdings::holders(std::uint32_t number, RankSets& sets) {
    if (sets_[number] != no_set) return sets_[number];
    std::vector<std::int32_t> ranks;
    for (std::uint32_t group : groups_of_[number])
        ranks.insert(ranks.end(), ranks_.begin() + groups_[group].begin, ranks_.begin() + groups_[group].end);
    std::ranges::sort(ranks);
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return sets_[number] = sets.add(ranks);
}

bool Holdings::is_part_of(std::uint32_t number, const Box& box) const {
    return std::ranges::any_of(groups_of_[number], [&](std::uint32_t group) { return groups_[group].box == box; });
}

bool Holdings::cut_alike(std::uint32_t number, const Holdings& other, std::uint32_t theirs) const {
    return std::ranges::all_of(groups_of_[number],
                               [&](std::uint32_t group) { return other.is_part_of(theirs, groups_[group].box); });
}

}  // namespace tpx
