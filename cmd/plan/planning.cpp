// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/planning.hpp"

#include "cmd/cli/cli.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/plan/group_notes.hpp"
#include "cmd/plan/plan_hosts.hpp"
#include "formats/convert/stored_model.hpp"
#include "formats/driver.hpp"
#include "formats/files/model_file.hpp"
#include "formats/registry.hpp"
#include "formats/rules/rules.hpp"
#include "formats/state/roles.hpp"
#include "lib/change/model_parcels.hpp"
#include "lib/core/error.hpp"
#include "lib/core/nearest.hpp"
#include "lib/core/units.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace tpx::cli {
namespace {

void note_peak(PlanReport& report) {
    const PeakMemory& peak = *report.change.peak;
    const Host& host = report.change.hosts[peak.host];
    if (!host.device_memory || static_cast<double>(peak.peak()) <= *host.device_memory) return;
    report.notes.push_back(fmt::format(
        "device {} of host '{}' needs {} for old and new state together, but has {}; go through storage, or change in "
        "steps (--via)",
        peak.device, host.name, format_bytes(static_cast<double>(peak.peak())), format_bytes(*host.device_memory)));
}

Families given_families(const PlanOptions& options) {
    return formats::load_families(std::vector<std::filesystem::path>{options.rules.begin(), options.rules.end()});
}

/// Throws Error (usage) if a role in --roles is unknown.
void check_role_names(std::string_view text) {
    if (text == "train" || text == "weights") return;
    const std::vector<std::string> known{"weight", "master", "exp_avg", "exp_avg_sq"};
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::string_view item = text.substr(begin, text.find(',', begin) - begin);
        const std::string role{item.substr(0, item.find(':'))};
        if (std::ranges::count(known, role) == 0) {
            std::vector<std::string> all{"train", "weights"};
            all.insert(all.end(), known.begin(), known.end());
            throw Error{Exit::usage,
                        "--roles: unknown role '{}'; use train, weights, or a list of {}, as in "
                        "weight:bf16,exp_avg:f32{}",
                        role, fmt::join(known, ", "), did_you_mean(role, all)};
        }
        begin += item.size() + 1;
    }
}

formats::ModelDescription given_description(const PlanOptions& options, const Families& families) {
    if (!options.roles.empty()) check_role_names(options.roles);
    ReadOptions file;
    file.config = options.config;
    check_settings(options, families, config_from_options(file));
    return formats::read_model_description(options.model, families, config_from_options(options),
                                           options.roles.empty() ? "train" : options.roles);
}

// The parcels of a model's change. Tensors are split evenly, unless --format names a format with its own split of
// optimizer state.
Parcels parcels_of_model(PlanReport& report, const Layout& from, const Layout& to, const PlanOptions& options) {
    Parcels even = model_parcels(*report.model, from, to);  // rejects impossible layouts, too
    if (options.format.empty()) return even;
    const Families families = given_families(options);
    formats::StoredModelChange change = formats::stored_model_change(
        given_description(options, families), *formats::format_by_name(options.format), from, to);
    if (!change.note.empty()) report.notes.push_back(std::move(change.note));
    return std::move(change.parcels);
}

// `model` without its weights: weights are rounded master weights, so a rank that gets the master weights of its
// weights does not need to receive the weights.
ModelState without_weights(PlanReport& report, ModelState model, const Layout& to) {
    const auto role = [&](Role wanted) { return std::ranges::find(model.roles, wanted, &StateRole::role); };
    const auto weight = role(Role::weight);
    if (weight == model.roles.end() || role(Role::master) == model.roles.end())
        throw Error{Exit::usage, "--derive-weights: the state has no weights with masters (see --roles)"};
    if (sharing_of(to, false) != sharing_of(to, true))
        throw Error{Exit::usage, "--derive-weights: under zero={} a rank has the masters of a part of its weights only",
                    to.zero};
    const auto bytes = static_cast<double>(parameters(model) * itemsize(weight->dtype));
    report.notes.push_back(
        fmt::format("weights ({} per copy of the model) are not moved; ranks derive them from master weights",
                    format_bytes(bytes)));
    model.roles.erase(weight);
    return model;
}

PlanReport plan_given_model(const PlanOptions& options) {
    check_model_request(options);
    const Layout from = layout_from_text_or_file(options.from);
    const Layout to = layout_from_text_or_file(options.to);
    PlanReport report;
    std::vector<Host> hosts = hosts_from_options(options, std::max(from.ranks(), to.ranks()));
    std::vector<RankLocation> rank_locations = locations_of_old_ranks(options, hosts, from.ranks(), report.notes);
    plan_model(report, model_from_options(options), from, to, std::move(hosts), std::move(rank_locations), options);
    return report;
}

}  // namespace

void check_model_request(const PlanOptions& options) {
    if (!options.checkpoint.empty()) throw Error{Exit::usage, "CKPT and --model exclude each other"};
    if (!options.stores.empty()) throw Error{Exit::usage, "--stores and --model exclude each other"};
    if (options.from.empty()) throw Error{Exit::usage, "--model needs --from LAYOUT"};
    if (!options.dialect.empty()) throw Error{Exit::usage, "--dialect is for checkpoints, not for --model"};
    if (options.format.empty()) return;
    const auto format = formats::format_by_name(options.format);
    if (!format || (*format)->check_model_layout == nullptr) {
        std::vector<std::string> names;
        for (const formats::Format known : formats::drivers())
            if (known->check_model_layout != nullptr) names.emplace_back(known->name);
        throw Error{Exit::usage,
                    "--format {}: with --model, use {}; without --format, each tensor is split along its first axis, "
                    "as FSDP does",
                    options.format, one_of(names)};
    }
    if (options.to == "auto" || !options.via.empty())
        throw Error{Exit::usage, "--format with --model is for a single change, without --via and --to auto"};
    if (!options.output.empty() || options.list)
        throw Error{Exit::usage,
                    "--format with --model counts bytes only; plan from a checkpoint to list or to write them"};
    if (options.derive_weights) throw Error{Exit::usage, "--format and --derive-weights exclude each other"};
}

StateMedium state_from_options(const PlanOptions& options) {
    if (options.state == "memory") return StateMedium::memory;
    if (options.state == "shared") return StateMedium::shared;
    if (options.state == "stores" || !options.stores.empty()) return StateMedium::stores;
    return options.model.empty() && !is_held(options.checkpoint) ? StateMedium::shared : StateMedium::memory;
}

ModelState model_from_options(const PlanOptions& options) {
    const Families families = given_families(options);
    ModelState model = given_description(options, families).model;
    if (!options.from.empty()) add_virtual_nodes(model, layout_from_text_or_file(options.from).vn);
    return model;
}

ChangeOptions change_options(const PlanOptions& options) {
    return {.state = state_from_options(options),
            .pinned = options.pin,
            .objective = options.objective == "time" ? Objective::time : Objective::bytes,
            .placement_class = options.placement == "groups" ? PlacementClass::groups : PlacementClass::blocks,
            .window = options.window.value_or(default_window),
            .storage_iteration = unsigned_of(options.storage_iteration)};
}

std::vector<RankLocation> locations_of_old_ranks(const PlanOptions& options, const std::vector<Host>& hosts, int ranks,
                                                 std::vector<std::string>& notes) {
    int devices = 0;
    for (const Host& host : hosts) devices += host.spare ? 0 : host.gpus;
    if (state_from_options(options) != StateMedium::shared || !options.ranks_on.empty() || ranks <= devices)
        return locations_from_options(options, hosts, ranks, state_from_options(options));
    notes.push_back(fmt::format(
        "the {} old ranks do not fit on the {} devices of these hosts: all state is read from shared storage", ranks,
        devices));
    return std::vector<RankLocation>(static_cast<std::size_t>(ranks));
}

void complete(PlanReport& report, const PlanOptions& options, Parcels parcels, std::vector<Host> hosts,
              std::vector<RankLocation> rank_locations, ChangeOptions change) {
    change.group = tp_span(report.to);
    report.change = make_change(std::move(parcels), std::move(hosts), std::move(rank_locations), std::move(change));
    check_device_memory(report.change.hosts, report.change.placement, report.change.held_after);
    if (report.change.peak) note_peak(report);
    add_group_notes(report);
    if (options.survive)
        report.survival = survival_of(report.change.parcels, report.change.hosts, report.change.placement);
}

void plan_model(PlanReport& report, const ModelState& model, const Layout& from, const Layout& to,
                std::vector<Host> hosts, std::vector<RankLocation> rank_locations, const PlanOptions& options,
                bool in_rounds, std::optional<Placement> placement) {
    report.model = options.derive_weights ? without_weights(report, model, to) : model;
    report.from = from;
    report.to = to;
    report.format = options.format;
    ChangeOptions change = change_options(options);
    change.may_read = change.state == StateMedium::shared;
    change.in_rounds = in_rounds;
    change.placement = std::move(placement);
    if (options.derive_weights) change.held_before = held_bytes(model, from);
    if (options.derive_weights) change.held_after = held_bytes(model, to);
    complete(report, options, parcels_of_model(report, from, to, options), std::move(hosts), std::move(rank_locations),
             std::move(change));
    const bool are_known =
        std::ranges::all_of(report.change.sources, [](const StateSource& s) { return s.iteration.has_value(); });
    if (!report.change.is_mixed() || are_known) return;
    report.notes.push_back(fmt::format(
        "{} exist on no host and are read from shared storage; the rest comes from the memory of hosts. Both must be "
        "of the same training iteration; --iteration and --storage-iteration check this",
        format_bytes(static_cast<double>(report.change.relocation.total.storage))));
}

void check_placement_options(const PlanOptions& options) {
    const bool for_time = options.objective == "time";
    const bool in_groups = options.placement == "groups";
    const char* option = in_groups ? "--placement groups" : "--objective time";
    if (for_time && in_groups)
        throw Error{Exit::usage, "--placement groups looks for the fewest bytes, so it excludes --objective time"};
    if ((for_time || in_groups) && options.pin)
        throw Error{Exit::usage, "--pin places ranks in order, so it excludes {}", option};
    if ((for_time || in_groups) && (!options.via.empty() || options.to == "auto"))
        throw Error{Exit::usage, "{} is for a single change, without --via and --to auto", option};
}

PlanReport make_plan_report(const PlanOptions& options) {
    if (!options.model.empty()) return plan_given_model(options);
    if (!options.roles.empty())
        throw Error{Exit::usage, "--roles: requires --model; the roles of a checkpoint are those that it contains"};
    if (options.derive_weights) throw Error{Exit::usage, "--derive-weights needs --model"};
    return plan_checkpoint(options);
}

}  // namespace tpx::cli
