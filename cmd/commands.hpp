// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"

namespace tpx::cli {

/// Describes every command of tpx.
void add_commands(Cli& cli);

}  // namespace tpx::cli
