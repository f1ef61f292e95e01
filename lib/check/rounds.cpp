// SPDX-License-Identifier: Apache-2.0
#include "lib/check/check_transfers.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace tpx {
namespace {

/// Throws when in some round one host has two partners; each entry is round, host, partner.
void check_partners(std::vector<std::array<std::uint32_t, 3>>& entries, const Facts& facts, std::string_view verb) {
    std::ranges::sort(entries);
    for (std::size_t i = 1; i < entries.size(); ++i) {
        const auto& [round, host, partner] = entries[i];
        if (entries[i - 1][0] == round && entries[i - 1][1] == host && entries[i - 1][2] != partner)
            throw failure("round {}: host '{}' {} two hosts", round, facts.t.hosts.name[host], verb);
    }
}

}  // namespace

void check_rounds(const Facts& facts) {
    const auto& t = facts.t.transfers;
    std::uint64_t rounds = 0;
    std::vector<std::array<std::uint32_t, 3>> sent, received;
    for (std::size_t i = 0; i < t.parcel.size(); ++i) {
        if (t.from[i] == storage_host) {
            if (t.round[i] != 0) throw failure("transfer {}: read from storage, but of round {}", i, t.round[i]);
            continue;
        }
        const std::uint64_t with_this = std::uint64_t{t.round[i]} + 1;
        if (with_this != rounds && with_this != rounds + 1)
            throw failure("transfer {}: of round {}, after {} rounds", i, t.round[i], rounds);
        rounds = with_this;
        sent.push_back({t.round[i], t.from[i], t.to[i]});
        received.push_back({t.round[i], t.to[i], t.from[i]});
    }
    if (rounds != facts.t.rounds) throw failure("rounds: {} are stored, {} counted", facts.t.rounds, rounds);
    check_partners(sent, facts, "sends to");
    check_partners(received, facts, "receives from");
}

}  // namespace tpx
