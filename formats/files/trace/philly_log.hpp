// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/table.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// Whether `text` is the job log of Philly, a JSON array of jobs with their attempts.
bool is_philly_log(std::string_view text);

/// The jobs of Philly's log as a table that ClusterLog reads: the duration is the sum of all attempts whose start and
/// end are recorded, the GPUs are those of the largest attempt. Adds what is wrong with other jobs to `bad`. Throws
/// Error if `text` is not JSON.
Table philly_log_table(std::string_view text, std::string_view file, std::vector<std::string>& bad);

}  // namespace tpx::formats
