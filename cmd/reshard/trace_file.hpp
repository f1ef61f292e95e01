// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"
#include "lib/exec/trace.hpp"

#include <string>
#include <string_view>

namespace tpx::cli {

/// A period of the main thread in a trace, from construction to destruction.
class Phase {
public:
    Phase(Trace& trace, std::string_view name) : trace_{trace}, name_{name} {}
    ~Phase() { trace_.add(0, name_, begin_, Trace::Clock::now()); }
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

private:
    Trace& trace_;
    std::string_view name_;
    Trace::Clock::time_point begin_ = Trace::Clock::now();
};

/// The events of all ranks in the JSON format of chrome://tracing, which Perfetto reads, too: a process for each rank,
/// times in microseconds since the first event of rank 0. Collective; the text is on rank 0, others get an empty one.
std::string trace_json(const mpi::Comm& comm, const Trace& trace);

}  // namespace tpx::cli
