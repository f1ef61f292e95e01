// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"
#include "lib/core/measured_value.hpp"

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// How near two ranks are to each other. Hosts are on the same switch only if that was said of both.
enum class PairClass { same_socket, same_host, same_switch, other };
inline constexpr std::array<std::string_view, 4> pair_class_keys{"same_socket", "same_host", "same_switch", "other"};
inline constexpr std::array<std::string_view, 4> pair_class_names{"same socket", "same host", "same switch", "other"};

/// Messages from one rank to another.
struct LinkHardware {
    MeasuredValue rate;     ///< bytes per second
    MeasuredValue latency;  ///< seconds one way, of a few bytes
};

/// One GPU. Rates are in bytes per second.
struct GpuHardware {
    std::string name;
    std::string bus;          ///< its PCI address
    int numa_node = -1;       ///< -1: not known
    int nvlinks = 0;          ///< how many are up
    MeasuredValue to_device;  ///< from pinned memory of the host
    MeasuredValue from_device;
    MeasuredValue copy;                ///< inside its memory: bytes copied
    std::vector<MeasuredValue> peers;  ///< to each GPU of the host, in their order; its own is not measured
};

/// What was measured of one host. Rates are in bytes per second.
struct HostHardware {
    std::string name;
    std::string switch_group;                                 ///< empty: not known
    int ranks = 1;                                            ///< how many were started there
    int sockets = 0, numa_nodes = 0, cores = 0, threads = 0;  ///< 0: not known
    MeasuredValue memory;                                     ///< bytes that one core copies
    MeasuredValue direct_read, direct_write;                  ///< of the disk, past the page cache
    MeasuredValue buffered_read, buffered_write;              ///< of the disk, through the page cache
    MeasuredValue disk_both;                                  ///< read and written, while it does both at once
    MeasuredValue disk_read, disk_write;                      ///< the better of direct and buffered
    MeasuredValue shared_read, shared_write;                  ///< of the disk, while all hosts use theirs
    MeasuredValue nic;                                        ///< the best link from or to it
    LinkHardware same_socket, same_host;                      ///< between two of its ranks
    MeasuredValue ipc;                                        ///< between GPUs of two processes
    std::vector<GpuHardware> gpus;
};

/// What NCCL reaches. Rates are in bytes per second.
struct NcclHardware {
    int gpus = 0;                          ///< 0: not measured
    std::array<MeasuredValue, 4> between;  ///< a pair of GPUs of each class
    MeasuredValue all_reduce;              ///< of all GPUs, as bus bandwidth: bytes / seconds × 2 (n − 1) / n
};

/// What was measured of a cluster: hosts, and the links between any two of them.
struct Hardware {
    std::vector<HostHardware> hosts;
    std::vector<std::vector<LinkHardware>> links;  ///< [from][to]; empty if there is one host
    NcclHardware nccl;
};

/// One of the rates of a host, or of a GPU.
template <class Owner>
struct Quantity {
    std::string_view key;   ///< in files
    std::string_view name;  ///< for people
    MeasuredValue Owner::*value;
    bool compared = true;  ///< judged by degraded(); others are parts of these
};
inline constexpr std::array<Quantity<HostHardware>, 12> host_quantities{{
    {"memory", "memory", &HostHardware::memory},
    {"disk_read", "disk read", &HostHardware::disk_read},
    {"disk_write", "disk write", &HostHardware::disk_write},
    {"disk_read_direct", "direct disk read", &HostHardware::direct_read, false},
    {"disk_write_direct", "direct disk write", &HostHardware::direct_write, false},
    {"disk_read_buffered", "buffered disk read", &HostHardware::buffered_read, false},
    {"disk_write_buffered", "buffered disk write", &HostHardware::buffered_write, false},
    {"disk_both", "disk read and write", &HostHardware::disk_both},
    {"disk_read_together", "disk read of all hosts", &HostHardware::shared_read},
    {"disk_write_together", "disk write of all hosts", &HostHardware::shared_write},
    {"nic", "NIC", &HostHardware::nic},
    {"gpu_ipc", "GPUs of two processes", &HostHardware::ipc},
}};
inline constexpr std::array<Quantity<GpuHardware>, 3> gpu_quantities{{
    {"to_device", "host to GPU", &GpuHardware::to_device},
    {"from_device", "GPU to host", &GpuHardware::from_device},
    {"copy", "GPU memory", &GpuHardware::copy},
}};

/// Gives each host the best rate of its links as that of its NIC.
void find_nics(Hardware& hardware);

/// The class of each host, numbered by their first members. Hosts are alike when they have as many ranks and sockets
/// and the same GPUs, and what was measured of memory, disks, NIC and GPUs agrees within 5 %, or within its spreads,
/// but never more than 25 %.
std::vector<int> classes_of(const Hardware& hardware);

/// The hosts as plans take them: all of a class have the medians of its rates, disks those that they have while all
/// hosts use theirs, as they do when state is moved. Devices are the GPUs, or where there are none the ranks.
std::vector<Host> hosts_for_planning(const Hardware& hardware, const std::vector<int>& classes);

/// How near hosts `a` and `b`, which are not the same, are.
PairClass class_of_pair(const HostHardware& a, const HostHardware& b);

/// All pairs of a class.
struct PairSummary {
    PairClass kind = PairClass::other;
    std::size_t pairs = 0;  ///< in one direction each
    LinkHardware typical;   ///< medians over the pairs; of one pair, its own
    double slowest = 0;     ///< the least of their rates
};

/// The classes of which there are pairs that were measured, nearest first.
std::vector<PairSummary> pair_classes(const Hardware& hardware);

/// A link that is slower than the NICs at both of its ends would let it be, by more than 10 % and more than its spread.
struct SlowLink {
    std::size_t from = 0, to = 0;
    double expected = 0;
};
std::vector<SlowLink> slow_links(const Hardware& hardware);

/// Whether a table of all links is needed, because the links of a class differ: one is more than 10 % from the median
/// of its class.
bool has_uneven_links(const Hardware& hardware);

/// Something that is slower than it was.
struct DegradedRate {
    std::string what;  ///< "n2: NIC", "n0 to n2", "n1: GPU 3: host to GPU"
    double before = 0, now = 0;
};

/// What of the hosts of the same names is slower than `before` says, by more than 10 % and more than the spreads of
/// both together; by three quarters in any case.
std::vector<DegradedRate> degraded(const Hardware& before, const Hardware& now);

/// Rates that the measurements themselves are unsure of: "n0: disk write: samples spread by 35 %", for spreads above
/// 20 %, largest first.
std::vector<std::string> noisy(const Hardware& hardware);

}  // namespace tpx
