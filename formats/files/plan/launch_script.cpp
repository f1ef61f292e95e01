// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/launch_script.hpp"

#include "lib/core/counted.hpp"
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

/// A space and the folder of the host; empty if unknown.
std::string folder_column(std::span<const std::filesystem::path> folders, std::uint32_t host) {
    if (folders.empty()) return "";
    const std::string folder = std::filesystem::absolute(folders[host]).string();
    if (folder.find('\n') != folder.npos) throw usage_error("{}: launch scripts cannot contain line feeds", folder);
    return " " + folder;
}

// One line for each block of ranks: its host, first rank, number of ranks, devices in the order of the ranks, and the
// folder of their state.
std::string table(std::span<const Host> hosts, const Placement& placement,
                  std::span<const std::filesystem::path> states) {
    const std::vector<std::int32_t> firsts = first_devices(hosts);
    std::vector<bool> has_ranks(hosts.size(), false);
    std::string text;
    for (const Block& block : placement.blocks) {
        has_ranks[block.host] = true;
        require_plain_name(hosts[block.host].name);
        text += fmt::format("{} {} {} ", hosts[block.host].name, block.begin, block.end - block.begin);
        for (std::int32_t rank = block.begin; rank < block.end; ++rank)
            text += fmt::format("{}{}", rank > block.begin ? "," : "", placement.devices[rank] - firsts[block.host]);
        text += folder_column(states, block.host) + '\n';
    }
    for (std::size_t h = 0; h < hosts.size(); ++h) {
        if (has_ranks[h] || hosts[h].lost) continue;
        require_plain_name(hosts[h].name);
        text += fmt::format("{} {} 0 -\n", hosts[h].name, placement.devices.size());
    }
    return text;
}

// One line for each host that is not lost: its name, and the folder of its data files.
std::string data_table(std::span<const Host> hosts, std::span<const std::filesystem::path> data) {
    std::string text;
    for (std::uint32_t h = 0; h < hosts.size() && !data.empty(); ++h)
        if (!hosts[h].lost) text += hosts[h].name + folder_column(data, h) + '\n';
    return text;
}

}  // namespace

void check_launch_names(std::span<const Host> hosts, const LaunchFolders& folders) {
    for (std::uint32_t h = 0; h < hosts.size(); ++h) {
        if (hosts[h].lost) continue;
        require_plain_name(hosts[h].name);
        folder_column(folders.states, h);
        folder_column(folders.data, h);
    }
}

std::string launch_script(std::span<const Host> hosts, const Placement& placement, std::string_view layout,
                          const LaunchFolders& folders) {
    const std::size_t nodes = placement.blocks.size();
    std::set<std::uint32_t> used;
    for (const Block& block : placement.blocks) used.insert(block.host);
    const std::pair<std::string_view, std::string> values[] = {
        {"@RANKS@", fmt::format("{}", placement.devices.size())},
        {"@LAYOUT@", std::string{layout}},
        {"@NODES@", fmt::format("{}", nodes)},
        {"@HOSTS@", counted(used.size(), "host")},
        {"@MASTER@", hosts[placement.blocks.front().host].name},
        {"@TABLE@\n", table(hosts, placement, folders.states)},
        {"@DATA@\n", data_table(hosts, folders.data)},
    };
    std::string text{launch_template()};
    for (const auto& [key, value] : values) {
        for (std::size_t at = text.find(key); at != text.npos; at = text.find(key, at + value.size()))
            text.replace(at, key.size(), value);
    }
    return text;
}

}  // namespace tpx::formats
