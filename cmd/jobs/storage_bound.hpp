// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/cost.hpp"
#include "lib/exec/mpi.hpp"

#include <vector>

namespace tpx::cli {

/// How long the hosts that the ranks are on need at least to read and write so many bytes of the storage they share.
/// Rates are those of the hosts of the same names in `known`, of others those of the first. Collective; the result is
/// on every rank.
Prediction storage_bound(const mpi::Comm& comm, const std::vector<Host>& known, std::uint64_t read,
                         std::uint64_t written);

}  // namespace tpx::cli
