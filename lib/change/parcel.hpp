// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/state/role.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// Numbered sets of ranks, each stored once: equal sets have equal numbers.
class RankSets {
public:
    /// The number of the set of `ranks`, which must be ascending and distinct. Adds the set if it is new.
    std::uint32_t add(std::span<const std::int32_t> ranks);

    /// The ranks of set `number`, ascending. Valid until the next add().
    std::span<const std::int32_t> operator[](std::uint32_t number) const {
        return std::span{ranks_}.subspan(begins_[number], begins_[number + 1] - begins_[number]);
    }
    std::uint32_t size() const { return static_cast<std::uint32_t>(begins_.size() - 1); }

private:
    std::uint32_t& slot(std::uint64_t hash, std::span<const std::int32_t> ranks);
    void grow();

    std::vector<std::int32_t> ranks_;
    std::vector<std::uint64_t> begins_{0};
    std::vector<std::uint64_t> hashes_;  // of each set
    std::vector<std::uint32_t> slots_;   // numbers of sets + 1, each at its hash or the next free slot; 0: free
};

/// State whose bytes are all held by the same old ranks and needed by the same new ranks: the unit of plans. However
/// many tensors a model has, it has only about as many parcels as there are pairs of old and new ranks with common
/// state.
struct Parcel {
    std::uint32_t holders = 0;  ///< a set of old ranks; may be empty
    std::uint32_t needers = 0;  ///< a set of new ranks, never empty
    std::uint32_t role = 0;     ///< index into Parcels::roles
    std::uint32_t tensor = 0;   ///< index into Parcels::tensors: one of its tensors, for messages
    bool recut = false;         ///< new ranks need it in pieces other than those in which old ranks hold it
    std::uint64_t bytes = 0;    ///< positive, a multiple of `element`
    std::uint32_t element = 1;  ///< bytes of one element, the same for all of its tensors

    /// The last end of an element at or before byte `byte`.
    std::uint64_t align(std::uint64_t byte) const { return byte - byte % element; }
};

/// A change of layout as amounts: who holds and who needs what, without hosts.
struct Parcels {
    int old_ranks = 0;
    int new_ranks = 0;
    std::vector<Role> roles;
    std::vector<std::string> tensors;
    RankSets holders;
    RankSets needers;
    std::vector<Parcel> parcels;  ///< any two differ in more than `tensor` and `bytes`
};

}  // namespace tpx
