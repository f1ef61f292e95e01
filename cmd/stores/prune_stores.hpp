// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/stores/managed_source.hpp"

#include <string>
#include <vector>

// tpx migrate --prune: removes old states from stores, except states that another run reads.
namespace tpx::cli {

/// Removes states that are not current, and files of unfinished changes, from the stores of `hosts`. Keeps states that
/// are newer than the current one, and states in use, which a note names. Collective.
void prune(const ManagedRun& run, const std::vector<bool>& hosts, Output& out);

/// prune() after a change, on all hosts that got the new state. The change is complete, so a failure is not thrown:
/// returns its cause; empty if there is no failure. Collective.
std::string prune_after(const ManagedRun& run, Output& out);

/// With --prune, frees space on this host before a change is written: if the host has the current state, removes
/// earlier ones. Does nothing for a state that is read from a checkpoint, since the current state has not been checked;
/// nor with --within, whose second change is planned from files of the state before the save.
void prune_before(const ManagedRun& run, const ManagedJob& job);

}  // namespace tpx::cli
