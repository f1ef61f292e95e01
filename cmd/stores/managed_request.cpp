// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/managed_request.hpp"

#include "cmd/hosts/migrate_files.hpp"
#include "cmd/hosts/migrate_ranks.hpp"
#include "cmd/output/output_file.hpp"
#include "cmd/plan/plan_hosts.hpp"
#include "cmd/stores/migrate_leaving.hpp"
#include "formats/driver.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/exec/agreement.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace tpx::cli {
namespace {

/// Properties of the requested state, from the options or, by default, from the current state.
struct RequestedState {
    std::string layout;
    std::string format;
    int replicas = 1;
};

RequestedState requested_state(const ManagedRun& run) {
    const TargetOptions& plan = run.options.plan;
    const formats::Manifest& current = *run.survey.manifest;
    return {
        plan.to.empty() ? current.layout : to_string(layout_from_text_or_file(plan.to)),
        plan.format.empty() ? current.format : std::string{formats::name(formats::format_by_name(plan.format).value())},
        static_cast<int>(run.options.replicas.value_or(1))};
}

/// Whether a change would write the current state again, even if another request created it: its layout, format,
/// replicas and hosts are the requested ones, and no device of its ranks is lost.
bool matches_request(const ManagedRun& run) {
    const MigrateRequest& options = run.options;
    const formats::Manifest& current = *run.survey.manifest;
    if (!options.import_from.empty() || options.assigned || options.position || !options.plan.dialect.empty() ||
        options.plan.batch)
        return false;
    const RequestedState requested = requested_state(run);
    if (requested.layout != current.layout || requested.format != current.format ||
        requested.replicas != current.replicas)
        return false;
    std::vector<std::string> hosts, others;
    for (const Host& host : run.team.hosts)
        if (has_live_devices(host)) hosts.push_back(host.name);
    for (const formats::ManifestHost& host : current.hosts) others.push_back(host.name);
    std::ranges::sort(hosts);
    std::ranges::sort(others);
    if (hosts != others) return false;
    const auto places = rank_places(current, run.team.hosts, 0);
    return places && places->as_recorded;
}

}  // namespace

bool asks_for_change(const MigrateRequest& options) {
    const std::string* given[] = {&options.plan.to, &options.plan.format, &options.plan.dialect, &options.plan.lost,
                                  &options.leaving, &options.rejoin,      &options.data,         &options.assignment};
    return options.replicas || options.plan.batch ||
           std::ranges::any_of(given, [](const std::string* text) { return !text->empty(); });
}

bool only_reads(const MigrateRequest& options) {
    if (!options.import_from.empty() || options.prune || !options.data_store.empty()) return false;
    return !options.export_to.empty() || !asks_for_change(options);
}

void check_managed_options(const MigrateRequest& options) {
    if (!options.import_from.empty() && !options.export_to.empty())
        throw Error{Exit::usage, "--import and --export exclude each other"};
    if (!options.import_from.empty() && !options.fallback.empty())
        throw Error{Exit::usage, "--import and --fallback exclude each other"};
    for (const auto& [name, given] :
         {std::pair{"--replicas", options.replicas.has_value()}, std::pair{"--assignment", !options.assignment.empty()},
          std::pair{"--prune", options.prune}})
        if (!options.export_to.empty() && given) throw Error{Exit::usage, "--export and {} exclude each other", name};
    if (!options.job.empty() && options.import_from.empty()) throw usage_error("--job: requires --import");
    if (options.iteration && options.import_from.empty() && options.fallback.empty())
        throw usage_error("--iteration: requires --import or --fallback");
    const bool moves = !options.import_from.empty() || !options.export_to.empty() || asks_for_change(options);
    for (const auto& [name, given] :
         {std::pair{"--fallback", !options.fallback.empty()}, std::pair{"--restart", options.restart},
          std::pair{"--pin", options.plan.pin}, std::pair{"--spare", !options.plan.spare.empty()}})
        if (given && !moves) throw usage_error("{}: requires a change such as --to LAYOUT", name);
    if (options.within && options.leaving.empty()) throw usage_error("--within requires --leaving");
    if (options.within && (!options.import_from.empty() || !options.export_to.empty()))
        throw usage_error("--within excludes --import and --export");
    if (options.background_rate && options.export_to.empty()) throw usage_error("--background-rate: requires --export");
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (options.job.find_first_not_of(allowed) != options.job.npos || options.job.starts_with('.'))
        throw Error{Exit::usage, "--job: '{}' must consist of letters, digits, '.', '_' and '-'", options.job};
}

std::string request_text(const MigrateRequest& options, const Team& team, const std::string& layout,
                         const std::string& format) {
    std::string text = fmt::format("{}|{}|{}|{}|{}|{}|{}", layout, format, options.plan.dialect,
                                   static_cast<int>(options.replicas.value_or(1)), options.job, options.import_from,
                                   options.plan.batch ? std::to_string(*options.plan.batch) : "");
    if (options.position) text += fmt::format("|{}", to_json(*options.position).dump());
    if (options.assigned) {
        text += fmt::format("|assignment of {}", options.assigned->batch);
        for (const formats::AssignedDevices& devices : options.assigned->devices)
            text += fmt::format(", {} {} with {} of {}", devices.count, devices.type, devices.local_batch,
                                devices.node_batch);
        for (const Host& host : team.hosts) text += fmt::format("|{} of type '{}'", host.name, host.device_type);
    }
    for (const Host& host : team.hosts)
        if (has_live_devices(host))
            text += fmt::format("|{}:{}-{}", host.name, host.gpus, fmt::join(host.lost_devices, ","));
    return text;
}

std::string hex(std::uint64_t number) { return fmt::format("{:016x}", number); }

std::string digest_of_request(const ManagedRun& run) {
    Fingerprint print;
    mpi::all_or_none(run.comm, [&] {
        const RequestedState requested = requested_state(run);
        print.add(request_text(run.options, run.team, requested.layout, requested.format));
    });
    return hex(print.value());
}

void check_export_place(const std::filesystem::path& output, const std::filesystem::path& store) {
    if (is_inside(output, store))
        throw usage_error("--export {}: is inside the store {}", output.string(), store.string());
}

std::vector<std::string> rejoining_hosts(const MigrateRequest& options, const Team& team) {
    if (options.rejoin.empty()) return {};
    std::vector<std::string> names = distinct_names(options.rejoin, "--rejoin");
    for (const std::string& name : names)
        if (std::ranges::find(team.hosts, name, &Host::name) == team.hosts.end())
            throw Error{Exit::usage, "--rejoin: no host is called '{}'", name};
    return names;
}

void keep_replicas(const ManagedRun& run, MigrateRequest& options, Output& out) {
    const auto hosts = static_cast<int>(std::ranges::count_if(run.team.hosts, has_live_devices));
    if (hosts == 0) throw mpi::AgreedError{usage_error("no host remains: all hosts are lost or leaving")};
    if (options.replicas || !run.survey.manifest) {
        mpi::all_or_none(run.comm, [&] { require_hosts(static_cast<int>(options.replicas.value_or(1)), hosts); });
        return;
    }
    const int before = std::max(run.survey.manifest->replicas, run.survey.manifest->requested_replicas);
    if (hosts < before)
        out.note("--replicas {} instead of {}: only {} can store files; pass --replicas {} when there are more hosts",
                 hosts, before, counted(static_cast<std::size_t>(hosts), "host"), before);
    options.replicas = std::max(1, std::min(before, hosts));
}

void keep_virtual_nodes(const ManagedRun& run, MigrateRequest& options) {
    if (options.plan.to.empty() || options.plan.to == "auto") return;
    mpi::all_or_none(run.comm, [&] {
        Layout layout = layout_from_text_or_file(options.plan.to);
        const int before = parse_layout(run.survey.manifest->layout).vn;
        if (layout.vn > 0 || before == 0) return;
        layout.vn = before;
        options.plan.to = to_string(layout);
    });
}

void check_position_stays(const ManagedRun& run, const nlohmann::ordered_json& stored) {
    if (!run.options.position || stored.is_null()) return;
    const nlohmann::ordered_json given = to_json(*run.options.position);
    std::string there, here;
    for (const char* key : {"samples", "seed", "global_batch", "consumed"}) {
        if (given.at(key) == stored.at(key)) continue;
        there += fmt::format("{}{}={}", there.empty() ? "" : ", ", key, stored.at(key).dump());
        here += fmt::format("{}{}={}", here.empty() ? "" : ", ", key, given.at(key).dump());
    }
    if (!here.empty())
        throw mpi::AgreedError{
            usage_error("--data {}: has {}, but the state in the stores has {}; omit --data to keep the position, or "
                        "pass it with --import",
                        run.options.data, here, there)};
}

bool is_done(const ManagedRun& run, const StoreCheck& check, const std::string& request) {
    const formats::Manifest& current = *run.survey.manifest;
    if (!check.notes.empty() || !check.lost_tensors.empty()) return false;
    if (current.request != request && !matches_request(run)) return false;
    return std::ranges::all_of(current.hosts, [&](const formats::ManifestHost& host) {
        const auto here = std::ranges::find(run.team.hosts, host.name, &Host::name);
        return here != run.team.hosts.end() && run.survey.has_current[here - run.team.hosts.begin()];
    });
}

}  // namespace tpx::cli
