// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/launch_script.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>
#include <vector>

namespace tpx::formats {
namespace {

void require_plain_name(const std::string& name) {
    const auto is_plain = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; };
    if (name.empty() || name.front() == '-' || !std::ranges::all_of(name, is_plain))
        throw Error{Exit::usage,
                    "host '{}': launchers accept only names of letters, digits, '.', '-' and '_'; rename it in --hosts",
                    name};
}

// One line for each host: its name, first rank, number of ranks, and devices in the order of the ranks.
std::string table(std::span<const Host> hosts, const Placement& placement) {
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    std::vector<bool> has_ranks(hosts.size(), false);
    std::string text;
    for (const Block& block : placement.blocks) {
        has_ranks[block.host] = true;
        require_plain_name(hosts[block.host].name);
        text += fmt::format("{} {} {} ", hosts[block.host].name, block.begin, block.end - block.begin);
        for (std::int32_t rank = block.begin; rank < block.end; ++rank)
            text += fmt::format("{}{}", rank > block.begin ? "," : "", placement.devices[rank] - firsts[block.host]);
        text += '\n';
    }
    for (std::size_t h = 0; h < hosts.size(); ++h) {
        if (has_ranks[h] || hosts[h].lost) continue;
        require_plain_name(hosts[h].name);
        text += fmt::format("{} {} 0 -\n", hosts[h].name, placement.devices.size());
    }
    return text;
}

}  // namespace

std::string launch_script(std::span<const Host> hosts, const Placement& placement, std::string_view layout) {
    const std::size_t nodes = placement.blocks.size();
    std::set<std::uint32_t> used;
    for (const Block& block : placement.blocks) used.insert(block.host);
    const std::pair<std::string_view, std::string> values[] = {
        {"@RANKS@", fmt::format("{}", placement.devices.size())},
        {"@LAYOUT@", std::string{layout}},
        {"@NODES@", fmt::format("{}", nodes)},
        {"@HOSTS@", fmt::format("{}", used.size())},
        {"@MASTER@", hosts[placement.blocks.front().host].name},
        {"@TABLE@\n", table(hosts, placement)},
    };
    std::string text{launch_template()};
    for (const auto& [key, value] : values) {
        for (std::size_t at = text.find(key); at != text.npos; at = text.find(key, at + value.size()))
            text.replace(at, key.size(), value);
    }
    return text;
}

}  // namespace tpx::formats
