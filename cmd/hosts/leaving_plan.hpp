// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/change.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tpx::cli {

/// The files that only leaving hosts have, and whether other hosts can save them before the leaving hosts are gone.
struct LeavingPlan {
    double within = 0;                 ///< seconds from the start of the command until the hosts are gone
    double passed = 0;                 ///< seconds from the start of the command until this plan was made
    std::uint64_t bytes = 0;           ///< of files of which only leaving hosts have an intact copy
    std::size_t files = 0;             ///< number of these files
    double send_seconds = 0;           ///< until the leaving hosts have sent these files
    double seconds = 0;                ///< until the files are on disks of hosts that remain
    std::vector<std::uint64_t> sends;  ///< bytes that each host sends to save the files; empty: nothing is saved
    std::vector<std::uint64_t> receives;
    std::uint64_t messages = 0;        ///< between hosts, to save the files
    std::vector<std::string> assumed;  ///< the rates of these resources are assumed: NIC, disk read, disk write

    double left() const { return within - passed; }
    bool is_in_time() const { return files == 0 || seconds <= left(); }
};

/// Sets the times of `plan` for a change in which hosts send, then write and read back what they have written, at the
/// rates of the hosts. `leaving[h]` is true if host `h` leaves.
void add_times(LeavingPlan& plan, const Change& change, const std::vector<bool>& leaving);

/// Sets how many bytes and messages hosts send each other in `change`, which saves the files.
void add_transfers(LeavingPlan& plan, const Change& change);

/// One sentence about `plan`.
std::string describe_leaving(const LeavingPlan& plan);

}  // namespace tpx::cli
