// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"
#include "lib/model/hardware.hpp"

#include <span>
#include <string>
#include <vector>

namespace tpx::cli {

class Output;

/// What is measured, and how long it may take.
struct SurveyOptions {
    std::string folder;   ///< whose disk is measured
    double seconds = 20;  ///< approximate duration
    bool memory = true, disk = true, links = true, gpus = true;
    std::vector<Host> hosts;  ///< hosts with their switches; empty: Slurm names the switches
};

/// Measures the hosts that the ranks are on, their links and their GPUs, in up to five visits at different times.
/// Collective; rank 0 gets the result. Throws Error on every rank when one fails.
Hardware survey_hardware(const mpi::Comm& comm, const SurveyOptions& options, Output& out);

}  // namespace tpx::cli
