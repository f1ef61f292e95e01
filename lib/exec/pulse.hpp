// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace tpx {

/// Lets ranks that work on their own share know now and then how far all are and whether one has failed, without
/// waiting for each other.
class Pulse {
public:
    /// One rank's state, or the sum over all ranks.
    struct State {
        std::uint64_t bytes = 0;        ///< done
        std::uint64_t finished = 0;     ///< 1 when this rank has nothing left to do
        std::uint64_t failed = 0;       ///< 1 when it cannot go on
        std::uint64_t stopped = 0;      ///< 1 when it was asked to stop
        std::uint64_t interrupted = 0;  ///< 1 when that was by SIGINT
    };

    explicit Pulse(const mpi::Comm& comm) : comm_{comm} {}

    /// Tells the others about `mine` and returns the sum over all ranks when a new one is known. All ranks get the same
    /// sums in the same order, and must stop calling at the same one.
    std::optional<State> beat(const State& mine);

private:
    const mpi::Comm& comm_;
    std::array<std::uint64_t, 5> sent_{};
    std::array<std::uint64_t, 5> sum_{};
    MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace tpx
