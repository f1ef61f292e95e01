// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/output.hpp"

#include <string>

namespace tpx::cli {

/// Prints what the keepers of this host hold.
void list_held(Output& out);

/// Ends the keeper of "hold:NAME". Throws Error if it does not answer.
void release_held(const std::string& name, Output& out);

}  // namespace tpx::cli
