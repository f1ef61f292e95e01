// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/node_store.hpp"
#include "cmd/store_survey.hpp"

#include <string>
#include <vector>

// How all stores change from one state to the next: each host prepares, all decide, each host applies. After a crash at
// any moment, recover_switch() ends the switch the same way on all hosts.
namespace tpx::cli {

/// A switch, and the hosts that get the new state.
struct Switch {
    formats::SwitchRecord record;
    std::vector<bool> members;  ///< by host
};

/// Switches the members to the state that is complete in the staging folder of each. Throws an mpi::AgreedError: with
/// exit_after_commit when the switch is decided, and the same command ends it. Collective.
void switch_stores(const mpi::Comm& comm, const Team& team, const NodeStore& store, const Switch& change);

/// Ends what a run left that was killed during a switch: forward if a commit was recorded in any store, in the folder
/// for decisions or by a host that has switched; otherwise back. Returns a note; empty if there was nothing to do.
/// `outdated` names hosts whose stores count as empty. Collective.
std::string recover_switch(const mpi::Comm& comm, const Team& team, const NodeStore& store,
                           const std::vector<std::string>& outdated);

}  // namespace tpx::cli
