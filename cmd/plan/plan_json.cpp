// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/plan_report.hpp"

#include <algorithm>
#include <map>
#include <span>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

Json bytes_json(const BytesBySource& bytes) {
    return {{"needed", bytes.needed},         {"kept", bytes.kept},
            {"local", bytes.local},           {"same_host", bytes.same_host},
            {"other_host", bytes.other_host}, {"storage", bytes.storage}};
}

Json layout_json(const std::optional<Layout>& layout) { return layout ? to_json(*layout) : Json(nullptr); }

Json side_json(formats::Format format, const Reading& reading, const std::optional<Layout>& layout) {
    return {{"format", formats::name(format)},
            {"dialect", reading.dialect ? Json(reading.dialect->name) : nullptr},
            {"layout", layout_json(layout)}};
}

void add_subject(Json& json, const PlanReport& report) {
    if (report.model) {
        json["model"] = report.model->name;
        json["from"] = {{"layout", layout_json(report.from)}};
        json["to"] = {{"layout", layout_json(report.to)}};
        if (!report.format.empty()) json["from"]["format"] = json["to"]["format"] = report.format;
        return;
    }
    const CheckpointChange& change = *report.checkpoint;
    const formats::Source& source = change.opened.source;
    json["checkpoint"] = change.path;
    json["from"] = side_json(source.checkpoint.format, source.reading, report.from);
    json["to"] = side_json(change.target.format, change.conversion.expressed.reading, change.target.layout);
    json["read"] = change.certificate.bytes_read;
    json["write"] = change.certificate.bytes_written;
    json["moves"] = change.certificate.moves;
    json["pieces"] = change.conversion.draft.pieces.size();
    json["files"] = change.conversion.draft.files.size();
}

Json hosts_json(const PlanReport& report) {
    Json list = Json::array();
    for (std::size_t h = 0; h < report.change.hosts.size(); ++h) {
        const Host& host = report.change.hosts[h];
        const Load& load = report.change.relocation.hosts[h];
        list.push_back({{"name", host.name},
                        {"gpus", host.gpus},
                        {"switch", host.switch_group},
                        {"lost", host.lost},
                        {"spare", host.spare},
                        {"lost_devices", host.lost_devices},
                        {"nic_in", load.nic_in},
                        {"nic_out", load.nic_out},
                        {"disk_read", load.disk_read},
                        {"disk_write", load.disk_write},
                        {"copied", load.memory},
                        {"device_copy", load.device_copy},
                        {"device_link", load.device_link},
                        {"staging", report.change.relocation.staging[h]}});
    }
    return list;
}

// Where each old rank is: [host, index of the device on the host], or null. The index is null for a store.
Json old_seats_json(const PlanReport& report, const std::vector<std::int32_t>& firsts) {
    Json list = Json::array();
    for (const RankLocation& location : report.change.old_ranks) {
        if (location.host < 0)
            list.push_back(nullptr);
        else
            list.push_back(
                {location.host, location.device < 0 ? Json(nullptr) : Json(location.device - firsts[location.host])});
    }
    return list;
}

Json new_seats_json(const PlanReport& report, const std::vector<std::int32_t>& firsts) {
    Json list = Json::array();
    for (const Block& block : report.change.placement.blocks) {
        for (std::int32_t rank = block.begin; rank < block.end; ++rank)
            list.push_back({block.host, report.change.placement.devices[rank] - firsts[block.host]});
    }
    return list;
}

Json flows_json(const PlanReport& report) {
    Json list = Json::array();
    for (const Flow& flow : sum_flows(report.change.relocation.transfers))
        list.push_back({{"from", flow.from == from_storage ? Json(nullptr) : Json(flow.from)},
                        {"to", flow.to},
                        {"bytes", flow.bytes}});
    return list;
}

Json resources_json(std::span<const ResourceBound> resources) {
    Json list = Json::array();
    for (const ResourceBound& bound : resources)
        list.push_back({{"resource", bound.resource},
                        {"seconds", bound.seconds},
                        {"host", bound.host},
                        {"bytes", bound.bytes},
                        {"rate", bound.rate},
                        {"assumed", bound.assumed},
                        {"counts", bound.counts}});
    return list;
}

const char* name_of(StateMedium state) {
    return state == StateMedium::memory ? "memory" : state == StateMedium::stores ? "stores" : "shared";
}

}  // namespace

std::vector<Flow> sum_flows(const std::vector<Transfer>& transfers) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> sums;
    for (const Transfer& transfer : transfers) sums[{transfer.from, transfer.to}] += transfer.end - transfer.begin;
    std::vector<Flow> flows;
    for (const auto& [hosts, bytes] : sums) flows.push_back({hosts.first, hosts.second, bytes});
    return flows;
}

nlohmann::ordered_json plan_json(const PlanReport& report) {
    const std::vector<std::int32_t> firsts = first_devices(report.change.hosts);
    Json json = Json::object();
    add_subject(json, report);
    json["state"] = name_of(report.change.state);
    json["sources"] = sources_json(report);
    json["parcels"] = report.change.parcels.parcels.size();
    json["total"] = bytes_json(report.change.relocation.total);
    json["roles"] = Json::object();
    for (std::size_t r = 0; r < report.change.parcels.roles.size(); ++r)
        json["roles"][std::string{name(report.change.parcels.roles[r])}] =
            bytes_json(report.change.relocation.roles[r]);
    json["hosts"] = hosts_json(report);
    json["old_ranks"] = old_seats_json(report, firsts);
    json["new_ranks"] = new_seats_json(report, firsts);
    json["old_bytes"] = report.change.held_before;
    json["new_bytes"] = report.change.held_after;
    json["flows"] = flows_json(report);
    json["transfers"] = report.change.relocation.transfers.size();
    json["rounds"] = report.change.relocation.rounds;
    json["rounds_seconds"] = report.change.relocation.seconds_with_barriers;
    json["window"] = report.change.relocation.window;
    json["certificate"] = certificate_json(report);
    json["resources"] = resources_json(report.change.prediction.resources);
    json["bounds"] = resources_json(report.change.prediction.bounds);
    json["bound_seconds"] = report.change.prediction.bound_seconds();
    json["estimate"] = !report.change.prediction.is_bound();
    json["seconds"] = report.change.prediction.seconds();
    json["binding"] = report.change.prediction.resources[report.change.prediction.binding].resource;
    if (report.change.peak) json["peak_memory"] = peak_json(*report.change.peak);
    if (report.survival) json["survival"] = survival_json(report);
    json["notes"] = report.notes;
    if (report.checkpoint) {
        for (const std::string& note : report.checkpoint->conversion.notes) json["notes"].push_back(note);
    }
    return json;
}

}  // namespace tpx::cli
