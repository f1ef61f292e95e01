// SPDX-License-Identifier: Apache-2.0
#include "lib/change/seats.hpp"

#include "lib/core/error.hpp"

namespace tpx {
namespace {

/// Whether neither the host nor the device of the seat is lost. State in the store of a host survives the loss of its
/// devices.
bool holds_state(std::span<const Host> hosts, std::span<const std::int32_t> firsts, const Seat& seat) {
    if (seat.host < 0 || hosts[seat.host].lost) return false;
    return seat.device < 0 || !is_lost(hosts[seat.host], seat.device - firsts[seat.host]);
}

}  // namespace

std::vector<std::int32_t> seat_hosts(std::span<const Host> hosts, std::span<const Seat> seats, int old_ranks) {
    if (std::ssize(seats) != old_ranks)
        throw Error{Exit::usage, "{} old ranks, but seats for {}", old_ranks, seats.size()};
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    std::vector<std::int32_t> on;
    for (const Seat& seat : seats) {
        if (seat.host >= std::ssize(hosts))
            throw Error{Exit::usage, "old rank {} is on host {} of {}", on.size(), seat.host, hosts.size()};
        if (seat.host >= 0 && seat.device >= 0 &&
            (seat.device < firsts[seat.host] || seat.device >= firsts[seat.host + 1]))
            throw Error{Exit::usage, "old rank {} is on device {}, which does not belong to host '{}'", on.size(),
                        seat.device, hosts[seat.host].name};
        on.push_back(holds_state(hosts, firsts, seat) ? seat.host : -1);
    }
    return on;
}

std::vector<std::int32_t> seat_devices(std::span<const Host> hosts, std::span<const Seat> seats) {
    std::vector<std::int32_t> on;
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    for (const Seat& seat : seats) on.push_back(holds_state(hosts, firsts, seat) ? seat.device : -1);
    return on;
}

}  // namespace tpx
