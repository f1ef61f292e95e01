// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tpx::cli {

/// Whether a checkpoint's optimizer state matches its weights.
struct MastersReport {
    std::vector<std::string> faults;  ///< one line each, with the tensor's stored name; empty if the state matches
    std::vector<std::string> notes;
    std::uint64_t parameters = 0;  ///< with optimizer state
    std::uint64_t mismatches = 0;  ///< canonical tensors that have a fault
    std::uint64_t masters = 0;     ///< master weights that were compared with their weights
    std::uint64_t moments = 0;
    std::uint64_t elements = 0;  ///< of all master weights
    std::string step;            ///< of the optimizer; empty: not recorded, or several
};

/// Checks that the optimizer state of `source` matches its weights. Reads each tensor once. Collective.
MastersReport check_masters(const mpi::Comm& comm, formats::Source& source, const ExecOptions& options = {});

}  // namespace tpx::cli
