// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hosts/migration.hpp"
#include "formats/files/profile/assignment_file.hpp"

#include <cstdint>
#include <span>
#include <vector>

// tpx migrate --assignment: how many virtual nodes run on devices of each type.
namespace tpx::cli {

/// The smallest number of virtual nodes of equal size such that each virtual node of `assignment`, whose size depends
/// on the type of its device, is a whole number of them.
int virtual_nodes_for(const formats::BatchAssignment& assignment);

/// Throws Error (usage) unless each device of `assignment` can run whole virtual nodes of the layout and batch of
/// `job`, and the layout has as many dp coordinates as the assignment has devices.
void check_assignment(const Migration& job, const formats::BatchAssignment& assignment);

/// `hosts`, with devices that `assignment` does not use marked as lost: for each type, first the devices of the hosts
/// that hold the fewest bytes of the state, by `held`. Throws Error (usage) if there are too few devices of a type.
std::vector<Host> assigned_hosts(const formats::BatchAssignment& assignment, const Layout& layout,
                                 std::vector<Host> hosts, std::span<const std::uint64_t> held);

/// Sets how many virtual nodes each dp coordinate of `job`, whose ranks are placed on `hosts`, runs. Throws Error
/// (usage) if the ranks of one coordinate are on devices of several types.
void assign_virtual_nodes(Migration& job, const formats::BatchAssignment& assignment, const std::vector<Host>& hosts);

}  // namespace tpx::cli
