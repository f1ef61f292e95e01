// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/parcel.hpp"
#include "lib/layout/grid.hpp"

#include <cstdint>
#include <unordered_map>

namespace tpx {

/// Numbers the sets of ranks that owners on one grid stand for; each set is found once.
class OwnerSets {
public:
    /// `sets` receives the sets and must outlive this.
    OwnerSets(const Grid& grid, Sharing sharing, RankSets& sets) : grid_{grid}, sharing_{sharing}, sets_{sets} {}

    /// The number in `sets` of the ranks of `owner`.
    std::uint32_t number(const Owner& owner);

private:
    struct Hash {
        std::size_t operator()(const Owner& owner) const;
    };

    Grid grid_;
    Sharing sharing_;
    RankSets& sets_;
    std::unordered_map<Owner, std::uint32_t, Hash> numbers_;
};

}  // namespace tpx
