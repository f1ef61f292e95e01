// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace tpx {

/// The host to which each host sends in each round, and the one from which it receives: at most one each, up to `room`
/// bytes.
class Ports {
public:
    Ports(std::size_t hosts, std::uint64_t room) : room_{room}, out_(hosts), in_(hosts) {}

    /// The first round, from `earliest` on, in which `from` can send `bytes` to `to`.
    std::uint32_t find(std::uint32_t from, std::uint32_t to, std::uint64_t bytes, std::uint32_t earliest) const;

    void take(std::uint32_t from, std::uint32_t to, std::uint64_t bytes, std::uint32_t round);

    /// Undoes take().
    void release(std::uint32_t from, std::uint32_t to, std::uint64_t bytes, std::uint32_t round);

private:
    static constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max();
    struct PortUse {
        std::uint64_t bytes = 0;
        std::uint32_t to = nobody;
    };

    std::uint64_t room_;
    std::vector<std::vector<PortUse>> out_;       // by host and round
    std::vector<std::vector<std::uint32_t>> in_;  // senders
};

}  // namespace tpx
