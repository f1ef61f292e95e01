// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/stores/node_store.hpp"
#include "cmd/stores/store_survey.hpp"

#include <string>
#include <vector>

// Switches all stores from one state to the next: each host prepares, all decide, each host applies. After a crash at
// any moment, recover_switch() completes the switch on all hosts or rolls it back on all hosts.
namespace tpx::cli {

/// A switch, and the hosts that get the new state.
struct Switch {
    formats::SwitchRecord record;
    std::vector<bool> members;  ///< by host
};

/// Switches the members to the state that is complete in the staging folder of each. Throws an mpi::AgreedError; its
/// exit status is exit_after_commit if the switch is decided, so that the same command completes it. Collective.
void switch_stores(const mpi::Comm& comm, const Team& team, const NodeStore& store, const Switch& change);

/// Ends a switch that was interrupted. Completes the switch if a host has switched, or if a commit but no abort is
/// recorded in the stores and in the decision folder; otherwise rolls it back. Returns a note, which is empty if there
/// was no such switch. `outdated` names hosts whose stores count as empty. Collective.
std::string recover_switch(const mpi::Comm& comm, const Team& team, const NodeStore& store,
                           const std::vector<std::string>& outdated);

/// Throws an mpi::AgreedError if recover_switch() would end a switch of the stores at `pattern`. Collective.
void require_no_interrupted_switch(const mpi::Comm& comm, const Team& team, const NodeStore& store,
                                   const std::vector<std::string>& outdated, const std::string& pattern);

}  // namespace tpx::cli
