// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/box_set.hpp"
#include "lib/change/parcel.hpp"
#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The ranks that hold pieces of one tensor, in terms of atoms: disjoint boxes whose elements are all in the same
/// pieces. A piece that overlaps no other, except exact replicas, is an atom.
class Holdings {
public:
    /// `ids`: positions in `pieces`, of one tensor, ordered by box, then rank; no box is empty.
    Holdings(std::span<const Piece> pieces, std::span<const std::uint32_t> ids);

    /// The boxes of the atoms, sorted by the first piece that contains each.
    const BoxIndex& atoms() const { return atoms_; }

    /// The number in `sets` of the set of ranks that hold atom `number`.
    std::uint32_t holders(std::uint32_t number, RankSets& sets);

    /// Whether atom `number` is in a piece whose box is `box`.
    bool is_part_of(std::uint32_t number, const Box& box) const;

    /// Whether each box of a piece that contains atom `number` is also the box of a piece of `other` that contains its
    /// atom `theirs`.
    bool cut_alike(std::uint32_t number, const Holdings& other, std::uint32_t theirs) const;

private:
    struct ReplicaBox {
        Box box;
        std::uint32_t begin = 0;  // range in ranks_
        std::uint32_t end = 0;
    };
    struct Atom {
        Box box;
        std::vector<std::uint32_t> groups;
    };
    static constexpr std::uint32_t no_set = ~0u;

    std::vector<Atom> split(const std::vector<std::uint32_t>& cluster) const;
    std::vector<Box> make_atoms();
    void group(std::span<const Piece> pieces, std::span<const std::uint32_t> ids);

    std::vector<ReplicaBox> groups_;
    std::vector<std::int32_t> ranks_;
    std::vector<std::vector<std::uint32_t>> groups_of_;  // of each atom
    std::vector<std::uint32_t> sets_;                    // of each atom; no_set: not computed yet
    BoxIndex atoms_;
};

}  // namespace tpx
