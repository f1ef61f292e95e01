// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli.hpp"

namespace tpx::cli {

/// The text of `tpx --help`: what tpx is, its commands, an example. At most 24 lines of 80 columns.
std::string help(const Cli& cli);

/// The text of `tpx COMMAND --help`: usage, every option, an example. At most 24 lines of 80 columns.
std::string help(const Command& command);

/// "-q, --quiet", "--to LAYOUT", "CKPT".
std::string flags(const Option& option);

}  // namespace tpx::cli
