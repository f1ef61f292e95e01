// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migrate_assignment.hpp"

#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <numeric>

namespace tpx::cli {
namespace {

using formats::AssignedDevices;
using formats::BatchAssignment;

template <class... Args>
Error refusal(const BatchAssignment& assignment, fmt::format_string<Args...> format, Args&&... args) {
    return Error{Exit::usage, "--assignment {}: {}", assignment.file, fmt::format(format, std::forward<Args>(args)...)};
}

/// The indices of the hosts, those that hold the fewest bytes first; in a tie, the last host first.
std::vector<std::size_t> by_bytes(std::span<const std::uint64_t> held) {
    std::vector<std::size_t> order(held.size());
    std::iota(order.rbegin(), order.rend(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t host) { return held[host]; });
    return order;
}

/// Marks devices of `type` as lost, host by host in `order`, until `usable` of them are left.
void restrict_devices(std::vector<Host>& hosts, const std::string& type, int usable,
                      std::span<const std::size_t> order) {
    int free = 0;
    for (const Host& host : hosts)
        if (host.device_type == type) free += free_devices(host);
    for (const std::size_t number : order) {
        Host& host = hosts[number];
        if (host.device_type != type || host.lost) continue;
        for (int device = host.gpus - 1; device >= 0 && free > usable; --device) {
            if (is_lost(host, device)) continue;
            host.lost_devices.insert(std::ranges::lower_bound(host.lost_devices, device), device);
            --free;
        }
    }
}

}  // namespace

int virtual_nodes_for(const BatchAssignment& assignment) {
    int size = 0;
    for (const AssignedDevices& devices : assignment.devices) size = std::gcd(size, devices.node_batch);
    return assignment.batch / size;
}

void check_assignment(const Migration& job, const BatchAssignment& assignment) {
    const Layout& layout = job.target.layout;
    if (job.batch != assignment.batch)
        throw refusal(assignment, "has global batches of {} samples, the job has {}", assignment.batch, job.batch);
    int count = 0;
    for (const AssignedDevices& devices : assignment.devices) count += devices.count;
    if (count != layout.dp)
        throw refusal(assignment, "assigns virtual nodes to {}, but the layout has dp={}; use dp={}",
                      counted(static_cast<std::uint64_t>(count), "device"), layout.dp, count);
    for (const AssignedDevices& devices : assignment.devices)
        if (job.batch % layout.vn != 0 || devices.local_batch % (job.batch / layout.vn) != 0)
            throw refusal(assignment,
                          "{} samples of a {} are not a whole number of virtual nodes ({} samples in {} virtual "
                          "nodes); use vn={}",
                          devices.local_batch, devices.type, job.batch, layout.vn, virtual_nodes_for(assignment));
}

std::vector<Host> assigned_hosts(const BatchAssignment& assignment, const Layout& layout, std::vector<Host> hosts,
                                 std::span<const std::uint64_t> held) {
    const int ranks = layout.ranks() / layout.dp;  // of a dp coordinate
    for (const AssignedDevices& devices : assignment.devices) {
        int free = 0;
        for (const Host& host : hosts)
            if (host.device_type == devices.type) free += free_devices(host);
        if (free < devices.count * ranks)
            throw refusal(
                assignment, "needs {} of device_type \"{}\", but --hosts has {}",
                counted(static_cast<std::uint64_t>(devices.count) * static_cast<std::uint64_t>(ranks), "device"),
                devices.type, free);
    }
    const std::vector<std::size_t> order = by_bytes(held);
    std::vector<std::string> types;
    for (const Host& host : hosts)
        if (std::ranges::find(types, host.device_type) == types.end()) types.push_back(host.device_type);
    for (const std::string& type : types) {
        const auto used = std::ranges::find(assignment.devices, type, &AssignedDevices::type);
        restrict_devices(hosts, type, used == assignment.devices.end() ? 0 : used->count * ranks, order);
    }
    return hosts;
}

void assign_virtual_nodes(Migration& job, const BatchAssignment& assignment, const std::vector<Host>& hosts) {
    Layout& layout = job.target.layout;
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    std::vector<std::string> types(static_cast<std::size_t>(layout.dp));
    for (std::size_t rank = 0; rank < job.devices.size(); ++rank) {
        const auto next = std::ranges::upper_bound(firsts, job.devices[rank]);
        const std::string& type = hosts[static_cast<std::size_t>(next - firsts.begin()) - 1].device_type;
        const int dp = coordinates(layout, static_cast<int>(rank)).dp;
        std::string& known = types[static_cast<std::size_t>(dp)];
        if (!known.empty() && known != type)
            throw refusal(assignment,
                          "the ranks of dp coordinate {} are on devices of types {} and {}; add "
                          "order=tp-cp-ep-pp-dp to the layout, or use smaller tp and pp",
                          dp, known, type);
        known = type;
    }
    layout.vn_parts.clear();
    const auto node = static_cast<int>(job.batch / layout.vn);
    for (const std::string& type : types)
        layout.vn_parts.push_back(std::ranges::find(assignment.devices, type, &AssignedDevices::type)->local_batch /
                                  node);
}

}  // namespace tpx::cli
