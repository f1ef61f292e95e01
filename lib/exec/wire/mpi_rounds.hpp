// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/device/run_rounds.hpp"
#include "lib/exec/mpi.hpp"

#include <span>

namespace tpx {

/// Carries rounds by MPI, between memory of hosts. Rank k of `comm` is host k.
class MpiRounds : public RoundTransport {
public:
    explicit MpiRounds(const mpi::Comm& comm) : comm_{comm} {}

    /// Throws Error if an endpoint is a GPU.
    void require(std::span<const Round> rounds) const override;
    void exchange(std::span<const OutgoingMessage> sent, std::span<const IncomingMessage> received) override;

private:
    const mpi::Comm& comm_;
};

}  // namespace tpx
