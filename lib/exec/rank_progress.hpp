// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpx {

/// Lets ranks that work on their own shares know from time to time how far all ranks are and whether one has failed,
/// without waiting for each other.
class RankProgress {
public:
    /// One rank's state, or the sum over all ranks.
    struct State {
        std::uint64_t bytes = 0;        ///< done
        std::uint64_t finished = 0;     ///< 1 when this rank has nothing left to do
        std::uint64_t failed = 0;       ///< 1 when it cannot continue
        std::uint64_t stopped = 0;      ///< 1 when it was asked to stop
        std::uint64_t interrupted = 0;  ///< 1 when that was by SIGINT
        std::uint64_t asked = 0;        ///< how many parts of the job it has asked for
    };

    explicit RankProgress(const mpi::Comm& comm);

    /// Sends `mine` to the other ranks, and returns the sum over all ranks if a new sum is complete. All ranks get the
    /// same sums in the same order, and must stop calling after the same sum.
    std::optional<State> beat(const State& mine);

    /// How many parts each rank had asked for when the latest sum was taken.
    std::span<const std::uint64_t> asked() const { return std::span{sum_}.subspan(common); }

private:
    static constexpr std::size_t common = 6;  // numbers of a State

    const mpi::Comm& comm_;
    std::vector<std::uint64_t> sent_;
    std::vector<std::uint64_t> sum_;
    mpi::Request request_;
};

}  // namespace tpx
