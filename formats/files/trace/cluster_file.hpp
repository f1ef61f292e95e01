// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/cluster.hpp"

#include <string>
#include <string_view>

namespace tpx::formats {

/// The cluster that `argument` names: "8x4" or "8×4" for eight hosts of four GPUs, "1x4:V100,2x8:K80" for several kinds
/// of GPUs, else the path of a file. Throws Error (usage) as parse_cluster does, and Error when the file cannot be
/// read.
Cluster read_cluster(const std::string& argument);

/// The cluster of TOML `text`: see tpx-cluster(5). Throws Error (usage) "FILE:LINE: cause".
Cluster parse_cluster(std::string_view text, std::string_view file);

}  // namespace tpx::formats
