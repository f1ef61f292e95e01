// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tpx {

/// This host's own name.
std::string host_name();

}  // namespace tpx
