// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/plan_file.hpp"
#include "cmd/cli/cli.hpp"
#include "cmd/plan/plan_report.hpp"
#include "cmd/plan/plan_request.hpp"
#include "formats/files/plan/plan_check.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/units.hpp"

#include <nlohmann/json.hpp>

#include <charconv>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

formats::FileChange stored_change(const CheckpointChange& change, const Parcels& parcels) {
    const formats::Conversion& conversion = change.conversion;
    const Catalogue& catalogue = change.opened.source.checkpoint.catalogue;
    formats::FileChange stored;
    stored.path = change.path;
    stored.source_digest = change.source_digest;
    stored.settings.format = formats::name(change.target.format);
    stored.settings.dialect = change.target.dialect;
    stored.settings.config = change.target.config;
    stored.tensors = conversion.source_tensors;
    for (const Tensor& tensor : conversion.target_tensors) stored.target_dtypes.push_back(tensor.dtype);
    for (std::uint32_t role : change.roles_of_tensors) stored.roles.push_back(change.roles[role]);
    stored.source_files = catalogue.files;
    stored.target_files = conversion.draft.files;
    stored.source = conversion.source_pieces;
    stored.target = conversion.target_pieces;
    stored.held_before = change.held;
    stored.held_after = change.needed;
    stored.cells = cells_of(change, parcels);
    stored.moves = change.moves;
    stored.proven = change.certificate;
    return stored;
}

Json check_json(const PlanOptions& options, const formats::CheckedPlan& plan) {
    Json json{{"plan", options.check}, {"holds", true}, {"from", plan.content.from}, {"to", plan.content.to}};
    if (plan.moves) {
        json["moves"] = plan.moves->moves;
        json["targets"] = plan.moves->targets;
        json["elements"] = plan.moves->elements;
        json["read"] = plan.moves->bytes_read;
        json["write"] = plan.moves->bytes_written;
    }
    if (plan.hosts) {
        json["ranks"] = plan.hosts->ranks;
        json["of_ranks"] = plan.hosts->total_ranks;
        json["parcels"] = plan.hosts->parcels;
        json["cells"] = plan.hosts->cells;
        json["transfers"] = plan.hosts->transfers;
        json["placements"] = plan.hosts->placements;
        json["between_hosts"] = plan.hosts->crossing;
        json["sending_seconds"] = plan.hosts->seconds;
        json["pinned"] = plan.hosts->placed_for != 0;
        json["placed_for"] = placement_goal_word(plan.content.hosts->placement.placed_for);
        if (plan.hosts->placed_for == 4) json["group_bound"] = plan.hosts->group_bound;
        json["group"] = plan.hosts->group;
    }
    return json;
}

std::string checked_placement(PlacementGoal placed_for, const PlanCheck& check) {
    const auto pairs = [&](std::string_view what) {
        return fmt::format("{} of {} and host", counted(check.placements, "pair"), what);
    };
    switch (placed_for) {
        case PlacementGoal::bytes:
            return fmt::format("no placement of blocks sends less ({} compared)", pairs("block"));
        case PlacementGoal::order:
            return "ranks are on the hosts in order";
        case PlacementGoal::sequence:
            return "ranks are where a sequence of changes needs them (--via), which was not compared with other "
                   "placements";
        case PlacementGoal::time:
            return "ranks are where the change is fastest (--objective time), which was not compared with other "
                   "placements";
        case PlacementGoal::groups:
            break;
    }
    return fmt::format("no placement of whole TP groups sends less than {} ({} compared)",
                       format_bytes(static_cast<double>(check.group_bound)), pairs("group"));
}

void print_check(const PlanOptions& options, const formats::CheckedPlan& plan, Output& out) {
    const auto size = [](std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
    out.result("{}: holds\n", options.check);
    if (plan.moves)
        out.result("  {} cover{} {} of {} once each, {} read, {} written\n", counted(plan.moves->moves, "move"),
                   plan.moves->moves == 1 ? "s" : "", counted(plan.moves->targets, "piece"), plan.content.to,
                   size(plan.moves->bytes_read), size(plan.moves->bytes_written));
    if (!plan.hosts) return;
    out.result("  the needs of {} of {} match the {}\n", plan.hosts->ranks, counted(plan.hosts->total_ranks, "rank"),
               counted(plan.hosts->parcels, "parcel"));
    if (plan.hosts->cells > 0)
        out.result("  {} name{} every element of the parcels, each once\n", counted(plan.hosts->cells, "cell"),
                   plan.hosts->cells == 1 ? "s" : "");
    out.result("  {} bring{} {} into hosts, each byte once, and hosts forward only what they have\n",
               counted(plan.hosts->transfers, "transfer"), plan.hosts->transfers == 1 ? "s" : "",
               size(plan.hosts->crossing));
    out.result("  {}\n", checked_placement(plan.content.hosts->placement.placed_for, *plan.hosts));
    if (plan.hosts->seconds > 0)
        out.result("  no choice of senders takes less than {} at the rates in the file\n",
                   format_seconds(plan.hosts->seconds));
}

void check_subject(const PlanOptions& options, const formats::CheckedPlan& plan) {
    if (options.checkpoint.empty()) return;
    if (!plan.catalogue) throw Error{Exit::usage, "{}: a plan for a model, not for a checkpoint", options.check};
    const OpenedCheckpoint opened = open_checkpoint(options.checkpoint, options);
    const Catalogue& catalogue = opened.source.checkpoint.catalogue;
    if (*plan.catalogue != catalogue_digest(catalogue))
        throw Error{Exit::no, "{}: was made for another checkpoint than {} (catalogue digest {:016x})", options.check,
                    catalogue.directory.string(), *plan.catalogue};
}

}  // namespace

void write_plan(const PlanReport& report, const std::filesystem::path& file) {
    formats::PlanFile content;
    content.version = version();
    content.from = report.from ? to_string(*report.from) : "";
    content.to = to_string(report.to);
    content.model = report.model;
    if (report.checkpoint) content.checkpoint = stored_change(*report.checkpoint, report.change.parcels);
    content.hosts = report.change;
    formats::write_plan_file(file, content);
}

void check_plan(const PlanOptions& options, Output& out) {
    std::optional<std::size_t> sample;
    if (options.sample) sample = static_cast<std::size_t>(*options.sample);
    const formats::CheckedPlan plan = formats::check_plan_file(options.check, sample);
    if (!plan.holds()) throw Error{Exit::no, "{}: {}", options.check, plan.fault};
    check_subject(options, plan);
    check_request(options, plan.content);
    out.json() ? out.object("tpx.plan-check/2", check_json(options, plan)) : print_check(options, plan, out);
}

}  // namespace tpx::cli
