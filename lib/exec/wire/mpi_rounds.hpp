// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/device/run_rounds.hpp"
#include "lib/exec/mpi.hpp"

#include <span>

namespace tpx {

/// Carries rounds by MPI, between memory of hosts, which is pinned where an endpoint is a GPU. Rank k of `comm` is host
/// k.
class MpiRounds : public RoundTransport {
public:
    explicit MpiRounds(const mpi::Comm& comm) : comm_{comm} {}

    /// False: the MPI of a site may not support GPU memory, and would crash on its addresses.
    bool is_in_gpu_memory(const Endpoint&, const Endpoint&) const override { return false; }
    void exchange(std::span<const OutgoingMessage> sent, std::span<const IncomingMessage> received) override;

private:
    const mpi::Comm& comm_;
};

}  // namespace tpx
