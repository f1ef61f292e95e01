// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/group_notes.hpp"

#include "lib/change/cut_blocks.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace tpx::cli {
namespace {

constexpr std::size_t most_named = 5;

// "ranks 4-7, 12-15 and 3 more groups".
std::string ranks_of(std::span<const std::int32_t> groups, int size) {
    std::vector<std::string> ranges;
    for (std::int32_t group : groups.first(std::min(groups.size(), most_named)))
        ranges.push_back(fmt::format("{}-{}", group * size, group * size + size - 1));
    const std::size_t more = groups.size() - ranges.size();
    return fmt::format("ranks {}{}", fmt::join(ranges, ", "),
                       more > 0 ? fmt::format(" and {} more group{}", more, more == 1 ? "" : "s") : "");
}

void note_split_groups(PlanReport& report) {
    const Change& change = report.change;
    const int group = change.placement.group;
    const std::vector<std::int32_t> split = split_groups(change.placement.blocks, group);
    if (split.empty()) return;
    int largest = 0;
    int whole = 0;  // ranks in groups that fit on single hosts
    for (const Host& host : change.hosts) {
        largest = std::max(largest, free_devices(host));
        whole += free_devices(host) / group * group;
    }
    const std::string remedy =
        largest < group
            ? fmt::format("no host has {} devices", group)
            : fmt::format("with groups of {}, these hosts can take {} ranks without a split group", group, whole);
    const std::size_t all = change.placement.devices.size() / static_cast<std::size_t>(group);
    const std::string groups =
        all == 1 ? "the only TP group is"
                 : fmt::format("{} of {} TP groups {}", split.size(), all, split.size() == 1 ? "is" : "are");
    report.notes.push_back(fmt::format("{} split over hosts, which slows every training step ({}); {}", groups,
                                       ranks_of(split, group), remedy));
}

// Searches for a placement of groups on any hosts, but only if that takes little time.
void find_free_groups(PlanReport& report) {
    constexpr std::uint64_t effort = 20'000'000;
    constexpr std::size_t most_groups = 1024;
    const Change& change = report.change;
    const Placement& placement = change.placement;
    const std::size_t groups = placement.devices.size() / static_cast<std::size_t>(placement.group);
    const auto takes_several = [&](const Host& host) { return free_devices(host) >= 2 * placement.group; };
    if (!placement.is_proven() || placement.crossing == 0 || groups > most_groups) return;
    if (std::ranges::none_of(change.hosts, takes_several)) return;
    const std::optional<GroupPlacement> found =
        place_groups(change.parcels, change.hosts, change.old_ranks, placement, effort);
    if (found) report.free_groups = FreeGroups{found->placement.crossing, found->bound};
}

}  // namespace

void add_group_notes(PlanReport& report) {
    note_split_groups(report);
    if (!report.change.relocation.transfers.empty()) find_free_groups(report);
    if (report.change.placement.placed_for == PlacementGoal::groups) return;
    const Change& change = report.change;
    const Placement& placement = change.placement;
    const auto same_ranks = [](const Block& a, const Block& b) { return a.begin == b.begin && a.end == b.end; };
    if (std::ranges::equal(cut_blocks(change.hosts, change.parcels.new_ranks, 1), placement.blocks, same_ranks)) return;
    report.crossing_if_split =
        place(change.parcels, change.hosts, change.old_ranks, placement.placed_for == PlacementGoal::order).crossing;
}

}  // namespace tpx::cli
