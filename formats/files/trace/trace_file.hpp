// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/trace/speeds_file.hpp"
#include "lib/cluster/job.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// The jobs of a trace, and the rows that cannot be jobs.
struct ParsedTrace {
    std::string format;                          ///< "tpx", "rubick", "virtualflow", "gavel", "philly" or "log"
    std::vector<TraceJob> jobs;                  ///< in order of arrival, then of lines
    std::vector<std::string> bad;                ///< "FILE:LINE: cause", in order of lines
    std::vector<std::string> unknown_columns{};  ///< that mean nothing in this format
    std::vector<std::string> known_columns{};    ///< of this format
    std::vector<std::string> notes{};            ///< about rows that were skipped or rounded
};

/// The trace in `text`, for `cluster`, with rates from `speeds`. What it is follows from its columns: see tpx-trace(5).
/// `elasticity` limits the GPUs of jobs for which the trace sets no limits.
/// Rows that are cut, have times below zero, name what the cluster has not, or ask for more than it has are bad. Throws
/// Error when the text is no trace at all.
ParsedTrace parse_trace(std::string_view text, std::string_view file, const Cluster& cluster, const JobSpeeds& speeds,
                        const std::optional<Elasticity>& elasticity = {});

/// The trace in the file at `path`.
ParsedTrace read_trace(const std::string& path, const Cluster& cluster, const JobSpeeds& speeds,
                       const std::optional<Elasticity>& elasticity = {});

}  // namespace tpx::formats
