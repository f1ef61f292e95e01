// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/tables.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace tpx {

/// Looks up sets of ranks by their members.
class SetNumbers {
public:
    explicit SetNumbers(const ListColumn& sets);
    std::optional<std::uint32_t> find(std::span<const std::int32_t> ranks) const;
    std::span<const std::int32_t> operator[](std::size_t set) const;

private:
    const ListColumn& sets_;
    std::unordered_multimap<std::uint64_t, std::uint32_t> numbers_;
};

/// Compares, rank by rank, the derived bytes with those of the file's parcels.
class ParcelChecker {
public:
    /// Throws Error if two parcels differ only in their bytes. Precondition: check_shape(tables) has passed.
    explicit ParcelChecker(const HostTables& tables);

    const SetNumbers& holders() const { return holders_; }
    const SetNumbers& needers() const { return needers_; }

    /// Records that the current rank needs `elements` more elements of `element` bytes each, of tensor number `tensor`
    /// and of `role`, that set `holders` holds and set `needers` needs. Returns their parcel. Throws Error if there is
    /// none.
    std::uint32_t add(std::uint32_t holders, std::uint32_t needers, std::uint32_t role, bool recut,
                      std::uint32_t tensor, std::uint64_t elements, std::uint32_t element);

    /// Throws Error unless what was added since the last call matches the parcels of `rank`: the bytes of each, and its
    /// lowest tensor.
    void close(std::int32_t rank);

    std::uint64_t compared() const { return compared_; }

private:
    struct Found {
        std::uint64_t bytes = 0;
        std::uint32_t tensor = ~0u;
    };
    auto key(std::uint32_t parcel) const;

    const HostTables& tables_;
    SetNumbers holders_, needers_;
    std::vector<std::uint32_t> order_;       // parcels by needers, holders, role, recut, element
    std::vector<std::uint32_t> of_needers_;  // where in order_ the parcels of each set of needers begin
    ListColumn sets_of_rank_;                // sets of needers that each new rank is in
    std::vector<Found> found_;               // by parcel
    std::uint64_t compared_ = 0;
    std::uint64_t open_ = 0;  // parcels with something added
};

}  // namespace tpx
