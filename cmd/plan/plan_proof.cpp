// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/plan_report.hpp"
#include "lib/core/units.hpp"

namespace tpx::cli {
namespace {

// The placements among which this one has the fewest bytes.
const char* compared_placements(const PlanReport& report) {
    switch (report.change.placement.placed_for) {
        case PlacementGoal::bytes:
            return "blocks of ranks";
        case PlacementGoal::order:
            return "this order of ranks";
        case PlacementGoal::groups:
            return "whole TP groups";
        case PlacementGoal::sequence:
        case PlacementGoal::time:
            break;
    }
    return "this placement";
}

std::uint64_t least_bytes(const PlanReport& report) {
    return report.change.group_bound.value_or(report.change.relocation.bound);
}

std::string block_words(const PlanReport& report) {
    const Placement& placement = report.change.placement;
    if (report.change.hosts.size() < 2 || placement.placed_for == PlacementGoal::groups) return "";
    if (placement.placed_for == PlacementGoal::order) return "; ranks are where --pin puts them";
    std::size_t moved = 0;
    std::uint32_t next = 0;
    for (const Block& block : placement.blocks) moved += block.host != next++;
    if (moved == 0) return "; ranks are on the hosts in order";
    const std::size_t all = placement.blocks.size();
    const std::string blocks = all == 1
                                   ? "the only block of ranks is"
                                   : fmt::format("{} of {} blocks of ranks {}", moved, all, moved == 1 ? "is" : "are");
    return fmt::format("; {} not on the host that comes next in order (--json)", blocks);
}

// The bytes that it costs or saves to keep each TP group on one host.
std::string split_words(const PlanReport& report) {
    if (!report.crossing_if_split) return "";
    const std::uint64_t whole = report.change.placement.crossing, split = *report.crossing_if_split;
    const std::string difference =
        whole == split ? "as much"
                       : fmt::format("{} {}", format_size(whole > split ? whole - split : split - whole),
                                     whole > split ? "less" : "more");
    return fmt::format("; devices stay idle to keep TP groups on one host: splitting them would send {}", difference);
}

double percent(std::uint64_t part, std::uint64_t whole) {
    return 100 * static_cast<double>(part) / static_cast<double>(whole);
}

// Prints how many bytes placing TP groups freely would send.
void print_free_groups(const PlanReport& report, Output& out) {
    if (!report.free_groups) return;
    const auto [crossing, bound] = *report.free_groups;
    const std::uint64_t now = report.change.placement.crossing;
    if (crossing < now)
        out.result("       placing TP groups freely would send {} less, {:.0f} % (--placement groups)\n",
                   format_size(now - crossing), percent(now - crossing, now));
    else if (bound >= now)
        out.result("       no placement of whole TP groups sends less\n");
    else
        out.result("       found no placement of whole TP groups that sends less; each sends at least {}\n",
                   format_size(bound));
}

void print_time_objective(const PlanReport& report, Output& out) {
    if (report.change.objective != Objective::time) return;
    if (!report.change.by_time) {
        out.result("       the predicted time does not depend on the placement\n");
        return;
    }
    const FastPlacement& found = *report.change.by_time;
    const bool is_faster = found.seconds < found.seconds_of_fewest_bytes;
    const std::string result =
        is_faster ? fmt::format("predicted {} instead of {} with the fewest bytes, {}", format_seconds(found.seconds),
                                format_seconds(found.seconds_of_fewest_bytes), format_size(found.fewest_bytes))
                  : "the placement with the fewest bytes is the fastest that was found";
    const std::string proof =
        found.is_fastest ? "no placement of blocks is faster"
                         : fmt::format("no placement of blocks takes less than {}", format_seconds(found.bound));
    out.result("       placed for time: {}; {}\n", result, proof);
}

}  // namespace

const char* placement_goal_word(PlacementGoal placed_for) {
    switch (placed_for) {
        case PlacementGoal::bytes:
            return "optimal";
        case PlacementGoal::order:
            return "pinned";
        case PlacementGoal::sequence:
            return "sequence";
        case PlacementGoal::time:
            return "time";
        case PlacementGoal::groups:
            break;
    }
    return "groups";
}

void print_proof(const PlanReport& report, Output& out) {
    const BytesBySource& total = report.change.relocation.total;
    const std::uint64_t bytes = total.other_host + total.storage;
    const std::string reads = total.storage > 0 ? fmt::format(" and {} from storage", format_size(total.storage)) : "";
    const std::string least = least_bytes(report) == bytes
                                  ? fmt::format("the least possible for {}", compared_placements(report))
                                  : fmt::format("the least found for {}, which send at least {}",
                                                compared_placements(report), format_size(least_bytes(report)));
    out.result("\nproof  {}{} between hosts{}, {}{}\n",
               report.checkpoint ? "every element written has one source; " : "", format_size(total.other_host), reads,
               least, block_words(report) + split_words(report));
    print_time_objective(report, out);
    print_free_groups(report, out);
}

nlohmann::ordered_json certificate_json(const PlanReport& report) {
    const Relocation& relocation = report.change.relocation;
    const std::uint64_t bytes = relocation.total.other_host + relocation.total.storage;
    nlohmann::ordered_json json{{"between_hosts", bytes},
                                {"between_hosts_bound", least_bytes(report)},
                                {"minimal", bytes == least_bytes(report)},
                                {"minimal_for", compared_placements(report)},
                                {"placement", placement_goal_word(report.change.placement.placed_for)},
                                {"sending",
                                 {{"hosts", nlohmann::ordered_json::array()},
                                  {"bytes", relocation.sending.bytes},
                                  {"seconds", relocation.sending.seconds}}}};
    for (std::uint32_t host : relocation.sending.hosts)
        json["sending"]["hosts"].push_back(report.change.hosts[host].name);
    if (report.crossing_if_split) json["between_hosts_if_split"] = *report.crossing_if_split;
    if (report.free_groups)
        json["free_groups"] = {{"between_hosts", report.free_groups->crossing},
                               {"between_hosts_bound", report.free_groups->bound}};
    if (report.change.by_time) {
        const FastPlacement& found = *report.change.by_time;
        json["by_time"] = {
            {"seconds", found.seconds},           {"seconds_bound", found.bound},
            {"minimal", found.is_fastest},        {"seconds_of_fewest_bytes", found.seconds_of_fewest_bytes},
            {"fewest_bytes", found.fewest_bytes}, {"placements", found.compared}};
    }
    if (report.checkpoint) {
        json["covered"] = report.checkpoint->certificate.holds();
        json["elements"] = report.checkpoint->certificate.elements;
    }
    return json;
}

}  // namespace tpx::cli
