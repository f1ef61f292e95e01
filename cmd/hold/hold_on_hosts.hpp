// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/cli.hpp"
#include "cmd/hold/hold.hpp"

#include <optional>

namespace tpx::cli {

/// Whether to join the state that keepers of several hosts hold: the checkpoint is "hold:NAME", and a launcher started
/// several processes, one on each host.
bool is_on_hosts(const HoldOptions& options);

/// Holds the joined state in another layout: each host gets the ranks that run on it, and either all hosts hold the new
/// state or none does.
/// `timeout` is in seconds; unset: none.
void hold_on_hosts(const HoldOptions& options, std::optional<int> timeout, Output& out);

}  // namespace tpx::cli
