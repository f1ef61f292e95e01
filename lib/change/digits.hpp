// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/parcel.hpp"
#include "lib/layout/grid.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace tpx {

/// The ranks of one grid by what they hold: which stage, block of experts, tensor-parallel part and shard.
class Digits {
public:
    /// `sets` receives the sets that are asked for; it and `grid` must outlive this.
    Digits(const Grid& grid, Sharing sharing, RankSets& sets);

    /// Stands for the first and the last stage.
    int both_ends() const { return grid_.stages; }

    /// The number of the set of ranks on `stage` with `block`; -1 as `part` or `shard` stands for all of them.
    std::uint32_t set(int stage, int block, int part, int shard);

private:
    /// The ranks of each tuple of digits, of which part or shard may be left out.
    struct Buckets {
        int parts = 1;
        int shards = 1;
        std::vector<std::uint32_t> begins;
        std::vector<std::int32_t> ranks;
        std::vector<std::uint32_t> numbers;  // of each tuple, with both ends as one more stage; no_set: not asked for
    };
    static constexpr std::uint32_t no_set = ~0u;

    void fill(Buckets& buckets, bool by_part, bool by_shard) const;
    std::uint32_t add(const Buckets& buckets, std::size_t tuple, std::size_t a_stage, bool both);

    const Grid& grid_;
    Sharing sharing_;
    RankSets& sets_;
    std::array<Buckets, 4> buckets_;
};

}  // namespace tpx
