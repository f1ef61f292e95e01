// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/parcel.hpp"
#include "lib/layout/grid.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace tpx {

/// Numbers the sets of ranks that owners on one grid represent. Each set is computed once.
class OwnerSets {
public:
    /// `sets` receives the sets and must outlive this.
    OwnerSets(const Grid& grid, Sharing sharing, RankSets& sets) : grid_{grid}, sharing_{sharing}, sets_{sets} {}

    /// The number in `sets` of the ranks of `owner`, whose stage must not be Owner::any.
    std::uint32_t number(const Owner& owner);

private:
    static constexpr std::uint32_t unknown = ~0u;

    Grid grid_;
    Sharing sharing_;
    RankSets& sets_;
    /// Numbers by coordinates, in one table for each combination of coordinates that are Owner::any.
    std::array<std::vector<std::uint32_t>, 8> numbers_;
};

}  // namespace tpx
