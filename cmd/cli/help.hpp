// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"

namespace tpx::cli {

/// The text of `tpx --help`: what tpx does, its commands, examples and exit statuses; lines of at most 80 columns.
std::string help(const Cli& cli);

/// The text of `tpx COMMAND --help`: usage, purpose and examples within the first 24 lines, then every option by group;
/// lines of at most 80 columns.
std::string help(const Command& command);

/// "-q, --quiet", "--to LAYOUT", "CKPT".
std::string flags(const Option& option);

}  // namespace tpx::cli
