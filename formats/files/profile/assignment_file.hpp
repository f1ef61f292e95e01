// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// What each device of one type does in a step.
struct AssignedDevices {
    std::string type;
    int count = 0;        ///< devices of this type
    int local_batch = 0;  ///< samples of each device
    int node_batch = 0;   ///< samples of each of its virtual nodes
};

/// The samples of a global batch, divided among devices of several types.
struct BatchAssignment {
    std::string file;  ///< the path that it was read from
    int batch = 0;
    std::vector<AssignedDevices> devices;  ///< their samples add up to `batch`
};

/// Reads an assignment that tpx profile hetero has written, see tpx-throughput(5); `file` is its path. Throws Error
/// (usage) "FILE:LINE: cause".
BatchAssignment parse_assignment(std::string_view text, const std::string& file);

}  // namespace tpx::formats
