// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/reshard_job.hpp"
#include "cmd/output/output.hpp"
#include "cmd/reshard/check_written.hpp"
#include "lib/change/prediction.hpp"
#include "lib/exec/execute.hpp"

#include <optional>
#include <string>
#include <vector>

namespace tpx::cli {

/// What was done, and a lower bound on its time if the rates of the hosts are known.
struct ReshardResult {
    ExecReport report;
    double seconds = 0;
    std::optional<Prediction> least;  ///< lower bounds on the times of resources
    bool durable = true;
    std::vector<std::string> printed_notes;  ///< notes that were printed before report()
    std::optional<VerifyResult> verified;
};

/// Adds what will be done to the log of the job.
void log_plan(const ReshardJob& job, const ReshardOptions& options);

/// Prints what was done or, without `done`, what would be done.
void report(const ReshardJob& job, const ReshardOptions& options, const std::optional<ReshardResult>& done,
            Output& out);

}  // namespace tpx::cli
