// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/prediction.hpp"
#include "lib/exec/mpi.hpp"

#include <vector>

namespace tpx::cli {

/// The minimum time that the hosts of the ranks need to read `read` bytes from shared storage and to write `written`
/// bytes to it. A host has the rates of the host with the same name in `known`, otherwise those of the first host
/// there. Collective; all ranks get the result.
Prediction storage_bound(const mpi::Comm& comm, const std::vector<Host>& known, std::uint64_t read,
                         std::uint64_t written);

}  // namespace tpx::cli
