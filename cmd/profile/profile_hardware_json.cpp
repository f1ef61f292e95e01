// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/html_page.hpp"
#include "cmd/profile/profile_hardware.hpp"

#include <nlohmann/json.hpp>

namespace tpx::cli {
namespace {

using nlohmann::ordered_json;

ordered_json measured_json(const MeasuredValue& measured) {
    return {{"median", measured.median}, {"spread", measured.spread}};
}

ordered_json link_json(const LinkHardware& link) {
    return {{"rate", link.rate.median},
            {"spread", link.rate.spread},
            {"latency", link.latency.median},
            {"latency_spread", link.latency.spread}};
}

ordered_json gpu_json(const GpuHardware& gpu) {
    ordered_json json{{"name", gpu.name}, {"bus", gpu.bus}, {"numa_node", gpu.numa_node}, {"nvlinks", gpu.nvlinks}};
    for (const auto& quantity : gpu_quantities) json[quantity.key] = measured_json(gpu.*quantity.value);
    json["peers"] = ordered_json::array();
    for (const MeasuredValue& peer : gpu.peers) json["peers"].push_back(measured_json(peer));
    return json;
}

ordered_json host_json(const HostHardware& host, int own_class) {
    ordered_json json{{"name", host.name},   {"class", own_class},      {"switch", host.switch_group},
                      {"ranks", host.ranks}, {"sockets", host.sockets}, {"numa_nodes", host.numa_nodes},
                      {"cores", host.cores}, {"threads", host.threads}};
    for (const auto& quantity : host_quantities) json[quantity.key] = measured_json(host.*quantity.value);
    json["same_socket"] = link_json(host.same_socket);
    json["same_host"] = link_json(host.same_host);
    json["gpus"] = ordered_json::array();
    for (const GpuHardware& gpu : host.gpus) json["gpus"].push_back(gpu_json(gpu));
    return json;
}

ordered_json links_json(const Hardware& hardware) {
    ordered_json links = ordered_json::array();
    for (std::size_t from = 0; from < hardware.links.size(); ++from)
        for (std::size_t to = 0; to < hardware.links.size(); ++to) {
            if (hardware.links[from][to].rate.median <= 0) continue;
            ordered_json link{{"from", hardware.hosts[from].name}, {"to", hardware.hosts[to].name}};
            link.update(link_json(hardware.links[from][to]));
            links.push_back(std::move(link));
        }
    return links;
}

ordered_json pairs_json(const Hardware& hardware) {
    ordered_json pairs = ordered_json::array();
    for (const PairSummary& summary : pair_classes(hardware)) {
        ordered_json pair{{"class", pair_class_keys[static_cast<std::size_t>(summary.kind)]}, {"count", summary.pairs}};
        pair.update(link_json(summary.typical));
        pair["slowest"] = summary.slowest;
        pairs.push_back(std::move(pair));
    }
    return pairs;
}

ordered_json nccl_json(const NcclHardware& nccl) {
    ordered_json json{{"gpus", nccl.gpus}};
    for (std::size_t kind = 0; kind < nccl.between.size(); ++kind)
        json[pair_class_keys[kind]] = measured_json(nccl.between[kind]);
    json["all_reduce"] = measured_json(nccl.all_reduce);
    return json;
}

}  // namespace

ordered_json hardware_json(const Hardware& hardware, const std::vector<DegradedRate>& slower) {
    const std::vector<int> classes = classes_of(hardware);
    ordered_json hosts = ordered_json::array(), slow = ordered_json::array(), worse = ordered_json::array();
    for (std::size_t i = 0; i < hardware.hosts.size(); ++i) hosts.push_back(host_json(hardware.hosts[i], classes[i]));
    for (const SlowLink& link : slow_links(hardware))
        slow.push_back({{"from", hardware.hosts[link.from].name},
                        {"to", hardware.hosts[link.to].name},
                        {"rate", hardware.links[link.from][link.to].rate.median},
                        {"expected", link.expected}});
    for (const DegradedRate& each : slower)
        worse.push_back({{"what", each.what}, {"before", each.before}, {"now", each.now}});
    return {{"hosts", hosts},     {"pairs", pairs_json(hardware)},    {"links", links_json(hardware)},
            {"slow_links", slow}, {"nccl", nccl_json(hardware.nccl)}, {"noisy", noisy(hardware)},
            {"degraded", worse}};
}

std::string hardware_html(const ordered_json& json) {
    const HtmlPage page{.title = "tpx profile hardware",
                        .body = "hardware.html",
                        .styles = {"base.css", "hardware.css"},
                        .scripts = {"base.js", "table.js", "figure.js", "hardware.js"}};
    return html_page(page, json);
}

}  // namespace tpx::cli
