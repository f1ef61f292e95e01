// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/plan/hosts.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// A measured rate in bytes per second, 0 where it was not measured, and how far its samples lie apart.
struct MeasuredRate {
    double rate = 0;
    double spread = 0;  ///< between the quartiles, as a share of the rate
};

/// What was measured of one host.
struct HostHardware {
    std::string name;
    int gpus = 1;
    MeasuredRate memory, disk_read, disk_write;
    MeasuredRate shared_read, shared_write;  ///< of the disk, while all hosts use theirs
    MeasuredRate nic;                        ///< the best link from or to it
};

/// What was measured of a cluster: hosts, and the links between any two of them.
struct Hardware {
    std::vector<HostHardware> hosts;
    std::vector<std::vector<MeasuredRate>> links;  ///< [from][to]
    std::vector<std::vector<double>> latency;      ///< seconds one way, [from][to]
};

/// Gives each host the best rate of its links as that of its NIC.
void find_nics(Hardware& hardware);

/// Hosts that are alike, all rates within `tolerance` of each other, get the medians of their rates. The class of each
/// host.
std::vector<int> merge_classes(Hardware& hardware, double tolerance = 0.05);

/// A link that is slower than the NICs at both of its ends would let it be, by more than 10 %.
struct SlowLink {
    std::size_t from = 0, to = 0;
    double expected = 0;
};
std::vector<SlowLink> slow_links(const Hardware& hardware);

/// Something that is slower than it was.
struct Degraded {
    std::string host;
    std::string_view what;
    double before = 0, now = 0;
};

/// What of the hosts of the same names is slower than `before` says, by more than 10 % and three times the spread.
std::vector<Degraded> degraded(std::span<const Host> before, const Hardware& now);

/// Rates that the measurements themselves are unsure of: "n0: disk write: spread 35 %", for spreads above 20 %.
std::vector<std::string> noisy(const Hardware& hardware);

}  // namespace tpx
