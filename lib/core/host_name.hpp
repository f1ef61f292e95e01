// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tpx {

/// The name by which this host calls itself.
std::string host_name();

}  // namespace tpx
