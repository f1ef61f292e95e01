// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tpx::cli {

/// Whether a checkpoint's optimizer is that of its weights.
struct MastersReport {
    std::vector<std::string> faults;  ///< a line each, with the tensor's stored name; empty when it is
    std::vector<std::string> notes;
    std::uint64_t parameters = 0;  ///< with optimizer state
    std::uint64_t misfits = 0;     ///< canonical tensors that have a fault
    std::uint64_t masters = 0;     ///< compared with their weights
    std::uint64_t moments = 0;
    std::uint64_t elements = 0;  ///< of masters
    std::string step;            ///< empty: none is told, or several are
};

/// Reads weights, masters and moments once. Collective.
MastersReport check_masters(const mpi::Comm& comm, formats::Source& source, const ExecOptions& options = {});

}  // namespace tpx::cli
