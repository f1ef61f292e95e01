// SPDX-License-Identifier: Apache-2.0
#include "lib/change/ports.hpp"

#include <algorithm>

namespace tpx {

std::uint32_t Ports::find(std::uint32_t from, std::uint32_t to, std::uint64_t bytes, std::uint32_t earliest) const {
    const std::vector<PortUse>& out = out_[from];
    const std::vector<std::uint32_t>& in = in_[to];
    for (std::uint32_t round = earliest;; ++round) {
        const bool sends = round < out.size() && out[round].to != nobody;
        const bool receives = round < in.size() && in[round] != nobody;
        if (!sends && !receives) return round;
        if (sends && out[round].to == to && out[round].bytes + bytes <= room_) return round;
    }
}

void Ports::take(std::uint32_t from, std::uint32_t to, std::uint64_t bytes, std::uint32_t round) {
    if (out_[from].size() <= round) out_[from].resize(round + std::size_t{1});
    if (in_[to].size() <= round) in_[to].resize(round + std::size_t{1}, nobody);
    out_[from][round].to = to;
    out_[from][round].bytes += bytes;
    in_[to][round] = from;
}

void Ports::release(std::uint32_t from, std::uint32_t to, std::uint64_t bytes, std::uint32_t round) {
    out_[from][round].bytes -= bytes;
    if (out_[from][round].bytes > 0) return;
    out_[from][round].to = nobody;
    in_[to][round] = nobody;
}

}  // namespace tpx
