// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/commands.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::cli {

/// Adds the group of options that describe the checkpoint to read.
void add_read_options(Command& command, ReadOptions& options);

/// Adds the group of options that describe the checkpoint to make; --to is required unless one of the options `unless`
/// is given. `more` is a sentence for the manual page about --to.
void add_target_options(Command& command, TargetOptions& options, std::vector<std::string> unless,
                        std::string_view more = "");

/// Adds --memory, --threads and --patience: what a process may use, and how long it waits. `metadata` is a sentence for
/// the manual page about the memory that metadata take.
void add_limit_options(Command& command, LimitOptions& options, std::string_view metadata = "");

/// Adds --log, the file to which a job appends its events.
void add_log_option(Command& command, LimitOptions& options);

/// Adds --hardware, the file of transfer rates; `without` is a sentence for the manual page about rates without it.
void add_hardware_option(Command& command, std::string& file, std::string_view summary, std::string_view without = "");

}  // namespace tpx::cli
