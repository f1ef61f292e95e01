// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/cli/options.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::cli {

/// Adds the group of options that describe the checkpoint to read.
void add_read_options(Command& command, ReadOptions& options);

/// Adds the group of options that describe the checkpoint to write; --to is required unless one of the options `unless`
/// is given. `more` is a sentence for the manual page about --to.
void add_target_options(Command& command, TargetOptions& options, std::vector<std::string> unless,
                        std::string_view more = "");

/// Adds --threads, --io-ranks, --memory and --patience: what a process may use, and how long it waits. `metadata` is a
/// sentence for the manual page about the memory that metadata take.
void add_limit_options(Command& command, LimitOptions& options, std::string_view metadata = "");

/// Adds --log, the file to which a job appends its events.
void add_log_option(Command& command, LimitOptions& options);

/// Adds --without and --only, which restrict what a command may choose: `subject` is "plans" or "layouts", and `when`
/// begins the summaries ("With --best: ") or is empty. `known` are the words that both options accept.
void add_technique_options(Command& command, TechniqueOptions& options, std::span<const std::string_view> known,
                           std::string_view subject, std::string_view when = "");

/// The techniques, of `known`, that the options exclude.
std::vector<std::string_view> excluded_techniques(const TechniqueOptions& options,
                                                  std::span<const std::string_view> known);

/// Adds --hardware, the file of transfer rates; `without` is a sentence for the manual page about rates without it.
void add_hardware_option(Command& command, std::string& file, std::string_view summary, std::string_view without = "");

}  // namespace tpx::cli
