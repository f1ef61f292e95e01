// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/check/layout_text.hpp"

#include <cstdint>
#include <vector>

namespace tpx {

/// The ranks that hold something: all ranks with these digits; -1 matches any digit.
struct RankGroup {
    bool experts = false;     ///< digits are those of the grid of experts
    bool shared_all = false;  ///< sharded over all replicas, not by fsdp
    bool by_dp = false;       ///< the shard is the dp digit
    std::int32_t stage = 0;
    std::int32_t other = 0;  ///< a second stage, or `stage` again
    std::int32_t block = 0;  ///< of experts
    std::int32_t part = -1;  ///< of tensor parallelism
    std::int32_t shard = -1;

    friend bool operator==(const RankGroup&, const RankGroup&) = default;
};

/// Converts between rank numbers and their digits.
class RankGrid {
public:
    RankGrid(const Degrees& degrees, bool experts);

    std::int64_t parts() const { return tp_.size; }
    std::int64_t blocks() const { return ep_.size; }
    std::int64_t stages() const { return pp_.size; }
    std::int64_t stage_step() const { return pp_.step; }
    std::int64_t dp_ranks() const { return dp_.size; }
    /// The number of shards of a tensor that is sharded over all replicas, or else by fsdp.
    std::int64_t shards(bool shared_all) const { return shared_all ? dp_.size * cp_.size : fsdp_; }

    std::int64_t part(std::int64_t rank) const { return tp_.digit(rank); }
    std::int64_t block(std::int64_t rank) const { return ep_.digit(rank); }
    std::int64_t stage(std::int64_t rank) const { return pp_.digit(rank); }
    std::int64_t dp(std::int64_t rank) const { return dp_.digit(rank); }
    std::int64_t shard(std::int64_t rank, bool shared_all) const;

    /// The ranks of `group`, ascending.
    std::vector<std::int32_t> ranks(const RankGroup& group) const;

private:
    struct Digit {
        std::int64_t size = 1;
        std::int64_t step = 1;
        std::int64_t digit(std::int64_t rank) const { return rank / step % size; }
    };
    std::int64_t shard(std::int64_t dp, std::int64_t cp, bool shared_all) const;

    Digit tp_, ep_, dp_, cp_, pp_;
    std::int64_t fsdp_ = 1;
};

}  // namespace tpx
