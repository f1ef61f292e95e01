// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"
#include "lib/exec/trace.hpp"

#include <string>

namespace tpx::cli {

/// The events of all ranks in the JSON format of chrome://tracing, which Perfetto reads, too: a process for each rank,
/// times in microseconds since the first event of rank 0. Collective; the text is on rank 0, others get an empty one.
std::string trace_json(const mpi::Comm& comm, const Trace& trace);

}  // namespace tpx::cli
