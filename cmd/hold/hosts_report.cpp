// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/hosts_report.hpp"

#include "cmd/jobs/keeper_client.hpp"
#include "cmd/jobs/open_checkpoint.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/host_name.hpp"
#include "lib/core/units.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace tpx::cli {
namespace {

using HostsJson = nlohmann::ordered_json;

/// Bytes by the keys of links.
HostsJson json_of(const LinkBytes& links) {
    HostsJson json = HostsJson::object();
    for (std::size_t k = 0; k < links.bytes.size(); ++k) json[std::string{link_class_keys[k]}] = links.bytes[k];
    return json;
}

/// The bytes of tensors that a host sends to others.
std::uint64_t sent_bytes(const HostsPlan& plan, int host) {
    const Side source = plan.hold.job.conversion.source_side();
    std::uint64_t bytes = 0;
    for (std::size_t k = 0; k < plan.carried.size(); ++k)
        if (plan.senders[k].host == host)
            bytes += static_cast<std::uint64_t>(
                volume(plan.carried[k].box) *
                itemsize(source.tensors[source.pieces[plan.carried[k].source].tensor].dtype));
    return bytes;
}

/// A JSON object for each host, gathered on all ranks. Collective.
HostsJson gathered(const mpi::Comm& comm, const HostsHeld& held, const HostHeld& own) {
    HostsJson mine{{"host", host_name()},
                   {"ranks", held.plan.ranks[static_cast<std::size_t>(comm.rank())]},
                   {"bytes", own.bytes},
                   {"memory_free", own.room},
                   {"gpus", own.place.gpus}};
    if (!own.place.reason.empty()) mine["reason"] = own.place.reason;
    if (own.process != 0) mine["process"] = own.process;
    mine["sent"] = sent_bytes(held.plan, comm.rank());
    mine["links"] = json_of(held.plan.links[static_cast<std::size_t>(comm.rank())]);
    mine["needs"] = HostsJson::array();
    for (const GpuNeed& need : own.needs)
        mine["needs"].push_back({{"gpu", need.gpu},
                                 {"old", need.old},
                                 {"new", need.fresh},
                                 {"staging", need.staging + need.messages},
                                 {"free", need.free},
                                 {"direct", need.is_direct}});
    HostsJson hosts = HostsJson::array();
    for (const std::string& text : mpi::all_gather(comm, mine.dump())) hosts.push_back(HostsJson::parse(text));
    return hosts;
}

HostsJson json_of(const HostsHeld& held, const HostsJson& hosts) {
    const formats::Target& target = held.plan.hold.job.target;
    HostsJson json{
        {"name", held.options.name}, {"held", !held.options.dry_run}, {"ranks", *target.held}, {"timeout", nullptr}};
    if (held.timeout) json["timeout"] = *held.timeout;
    std::uint64_t bytes = 0;
    for (const HostsJson& host : hosts) bytes += host["bytes"].get<std::uint64_t>();
    json["bytes"] = bytes;
    json["source"] = held.options.checkpoint;
    json["layout"] = to_json(target.layout);
    json["hosts"] = hosts;
    json["between_hosts"] = {{"bytes", carried_bytes(held.plan.rounds, held.plan.rounds_job())},
                             {"rounds", held.plan.rounds.size()},
                             {"transport", nullptr}};
    if (!held.transport.name.empty()) json["between_hosts"]["transport"] = held.transport.name;
    if (!held.transport.reason.empty()) json["between_hosts"]["reason"] = held.transport.reason;
    json["between_hosts"]["nccl_bytes"] = held.transport.nccl_bytes;
    json["seconds"] = held.seconds;
    json["notes"] = held.plan.hold.job.conversion.notes;
    return json;
}

/// By which transport elements move, such as " by NCCL"; with GPUs, also why it is not NCCL.
std::string transport_text(const HostsHeld& held) {
    const ChosenTransport& transport = held.transport;
    if (transport.name == "nccl") return " by NCCL";
    if (transport.name.empty() || !wants_gpus(held.options)) return "";
    return fmt::format(" by MPI, not NCCL: {}", transport.reason);
}

/// Says how many bytes go by each kind of link.
void note_links(const HostsHeld& held, Output& out) {
    LinkBytes all;
    for (const LinkBytes& of_host : held.plan.links) all += of_host;
    const std::string text = to_text(all);
    if (!text.empty()) out.note("links that {} tensors: {}", held.options.dry_run ? "carry" : "carried", text);
}

/// Says what memory the GPUs of all hosts need.
void note_needs(const HostsJson& hosts, Output& out) {
    const auto size = [](const HostsJson& need, const char* key) {
        return format_size(need[key].get<std::uint64_t>());
    };
    for (const HostsJson& host : hosts)
        for (const HostsJson& need : host["needs"])
            out.note(
                "{}: GPU {}: needs {} for new state and {} for lists of copies and messages, beside {} of old state; "
                "{} are free",
                host["host"].get<std::string>(), need["gpu"].get<int>(), size(need, "new"), size(need, "staging"),
                size(need, "old"), size(need, "free"));
}

void print(const HostsHeld& held, const HostsJson& json, Output& out) {
    const std::string what =
        fmt::format("{} of {} ({})", counted(json["ranks"].size(), "rank"), to_string(held.plan.hold.job.target.layout),
                    format_size(json["bytes"].get<std::uint64_t>()));
    const auto holding = static_cast<std::size_t>(
        std::ranges::count_if(json["hosts"], [](const HostsJson& host) { return !host["ranks"].empty(); }));
    const std::string end =
        held.timeout ? fmt::format("for {}", format_seconds(*held.timeout)) : "until it is released";
    if (held.options.dry_run)
        out.result("{}: {} would hold {}\n", held.options.checkpoint, counted(holding, "host"), what);
    else
        out.result("{}{}: {} {} {} {}, or until all ranks are taken\n", held_prefix, held.options.name,
                   counted(holding, "host"), holding == 1 ? "holds" : "hold", what, end);
    for (const HostsJson& host : json["hosts"]) {
        if (host["ranks"].empty()) continue;
        out.result("  {}: ", host["host"].get<std::string>());
        if (host.contains("process")) out.result("process {}, ", host["process"].get<int>());
        out.result("{} {}", host["ranks"].size() == 1 ? "rank" : "ranks",
                   fmt::join(host["ranks"].get<std::vector<int>>(), ", "));
        if (!host["gpus"].empty()) out.result(" on GPU {}", fmt::join(host["gpus"].get<std::vector<int>>(), ", "));
        out.result(", {}", format_size(host["bytes"].get<std::uint64_t>()));
        if (held.options.dry_run) out.result("; {} are free", format_size(host["memory_free"].get<std::uint64_t>()));
        out.result("\n");
    }
}

}  // namespace

void report_hosts(const mpi::Comm& comm, const HostsHeld& held, const HostHeld& own, Output& out) {
    const HostsJson hosts = gathered(comm, held, own);
    mpi::all_or_none(comm, [&] {
        if (comm.rank() != 0) return;
        const HostsJson json = json_of(held, hosts);
        for (const HostsJson& host : hosts)
            if (host.contains("reason"))
                out.note("{}: the state is held in host memory: {}", host["host"].get<std::string>(),
                         host["reason"].get<std::string>());
        const auto bytes = json["between_hosts"]["bytes"].get<std::uint64_t>();
        out.note("{} of tensors {} between hosts, in {}{}", format_size(bytes), held.options.dry_run ? "move" : "moved",
                 counted(held.plan.rounds.size(), "round"), transport_text(held));
        if (wants_gpus(held.options)) note_links(held, out);
        if (held.options.dry_run) note_needs(json["hosts"], out);
        out.json() ? out.object("tpx.hold/1", json) : print(held, json, out);
        out.finish();
    });
}

}  // namespace tpx::cli
