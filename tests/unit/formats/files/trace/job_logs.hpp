// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/trace/cluster_file.hpp"
#include "formats/files/trace/trace_file.hpp"

#include <string>

namespace tpx::formats {

/// The jobs of a log named "t" on hosts such as "4x8".
inline ParsedTrace log_of(const std::string& text, const std::string& cluster = "4x8") {
    return parse_trace(text, "t", read_cluster(cluster), {});
}

}  // namespace tpx::formats
