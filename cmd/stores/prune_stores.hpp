// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/stores/managed_source.hpp"

#include <string>
#include <vector>

// What --prune removes. A state that another run reads stays.
namespace tpx::cli {

/// Removes states that are not current, and what unfinished changes left, from the stores of `hosts`. States that are
/// newer than the current one stay; a note names those that are in use. Collective.
void prune(const Managed& run, const std::vector<bool>& hosts, Output& out);

/// The same after a change, on all hosts that got the new state. Returns why it failed, since the change is complete;
/// empty: it did not. Collective.
std::string prune_after(const Managed& run, Output& out);

/// With --prune, frees space on this host before a change is written: if the host has the current state, removes
/// earlier ones. Not for a state that is read from a checkpoint: nobody has checked the current one then. Nor with
/// --within, whose second change is planned from files of the state before the save.
void prune_before(const Managed& run, const ManagedJob& job);

}  // namespace tpx::cli
