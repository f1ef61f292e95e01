// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migrate_forecast.hpp"

#include "cmd/hosts/migrate_run.hpp"
#include "cmd/jobs/host_times.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/wire/transfer_schedule.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace tpx::cli {
namespace {

/// The bytes of each host's files.
std::vector<std::uint64_t> bytes_of_hosts(const Migration& job) {
    std::vector<std::uint64_t> bytes(job.files_of_hosts.size());
    for (std::size_t h = 0; h < bytes.size(); ++h)
        for (std::size_t f = 0; f < job.files_of_hosts[h].size(); ++f)
            if (job.files_of_hosts[h][f]) bytes[h] += job.conversion.draft.files[f].size;
    return bytes;
}

/// The longest time that a host takes to read its part of `bytes`.
double longest_read(const std::vector<std::uint64_t>& bytes, const std::vector<Host>& hosts, HostTimes& rates) {
    double longest = 0;
    for (std::size_t h = 0; h < bytes.size(); ++h) longest = std::max(longest, rates.read(bytes[h], hosts[h]));
    return longest;
}

/// The resource that takes the longest. Bytes that a host receives are also written to its inbox, and read from there;
/// `checked` contains the bytes that each host compares during the move; empty if none.
Forecast::Bottleneck bottleneck(const Change& change, const std::vector<Host>& hosts,
                                const std::vector<std::uint64_t>& checked, HostTimes& rates) {
    Forecast::Bottleneck longest;
    for (std::size_t h = 0; h < hosts.size(); ++h) {
        const Host& host = hosts[h];
        const Load& load = change.relocation.hosts[h];
        const std::uint64_t read = load.disk_read + load.nic_in + (checked.empty() ? 0 : checked[h]);
        const std::uint64_t written = load.disk_write + load.nic_in;
        const Forecast::Bottleneck resources[] = {{"NIC in", host.name, load.nic_in, rates.nic(load.nic_in, host)},
                                                  {"NIC out", host.name, load.nic_out, rates.nic(load.nic_out, host)},
                                                  {"disk read", host.name, read, rates.read(read, host)},
                                                  {"disk write", host.name, written, rates.write(written, host)}};
        for (const Forecast::Bottleneck& resource : resources)
            if (resource.seconds > longest.seconds) longest = resource;
    }
    return longest;
}

/// Peak memory of this program. The value of getrusage() would include the program that started it.
std::uint64_t peak_memory() {
    constexpr std::string_view key = "VmHWM:";
    std::ifstream status{"/proc/self/status"};
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(key)) return std::stoull(line.substr(key.size())) * 1024;
    return 0;
}

/// The memory for buffers that --memory leaves.
std::uint64_t buffer_memory(const MigrateRequest& options, const Migration& job) {
    try {
        return limits_of({}, options, job).memory;
    } catch (const mpi::AgreedError& error) {
        throw Error{static_cast<const Error&>(error)};  // on this rank only
    }
}

}  // namespace

Forecast forecast_of(const Migration& job, const MigrateRequest& options, const std::vector<std::uint64_t>& checked,
                     const formats::Manifest* manifest, std::optional<double> disk_limit) {
    Forecast forecast{.metadata = job.planning.metadata};
    HostTimes rates{forecast.assumed_rates};
    std::vector<Host> hosts = job.change.hosts;
    for (Host& host : hosts) {
        if (!disk_limit) break;
        host.disk_read = std::min(host.disk_read.value_or(default_rates.disk_read), *disk_limit);
        host.disk_write = std::min(host.disk_write.value_or(default_rates.disk_write), *disk_limit);
    }
    const std::vector<std::uint64_t> stored = bytes_of_hosts(job);
    const bool during_move = checks_during_move(options);
    if (!during_move) forecast.check_seconds = longest_read(checked, hosts, rates);
    // With stores, rank 0 reads the metadata and plans; then all other ranks plan at the same time.
    const bool is_planned_twice = forecast.metadata.reads > 0 && hosts.size() > 1;
    forecast.plan_seconds = job.planning.seconds * (is_planned_twice ? 2 : 1);
    forecast.move = bottleneck(job.change, hosts, during_move ? checked : std::vector<std::uint64_t>{}, rates);
    if (manifest != nullptr) {
        forecast.manifest_bytes = formats::to_text(*manifest).size();
    }
    std::ranges::sort(forecast.assumed_rates);
    forecast.messages = count_messages(job.change.parcels, job.change.relocation.transfers, hosts.size());
    if (job.leaving && !job.leaving->sends.empty()) {
        forecast.save_seconds = job.leaving->seconds;
        forecast.messages += job.leaving->messages;
    }
    const auto fullest = std::ranges::max_element(stored) - stored.begin();
    (void)part_of_host(job, static_cast<std::uint32_t>(fullest), {});  // to use as much memory as a run that writes
    forecast.plan_memory = peak_memory();
    forecast.buffer_memory = buffer_memory(options, job);
    return forecast;
}

nlohmann::ordered_json to_json(const Forecast& forecast) {
    return {{"seconds", forecast.seconds()},
            {"check_seconds", forecast.check_seconds},
            {"save_seconds", forecast.save_seconds},
            {"plan_seconds", forecast.plan_seconds},
            {"move_seconds", forecast.move.seconds},
            {"bottleneck",
             {{"resource", forecast.move.resource}, {"host", forecast.move.host}, {"bytes", forecast.move.bytes}}},
            {"assumed_rates", forecast.assumed_rates},
            {"messages", forecast.messages},
            {"metadata_reads", forecast.metadata.reads},
            {"metadata_bytes_read", forecast.metadata.bytes_read},
            {"metadata_bytes_shared", forecast.metadata.bytes_shared},
            {"manifest_bytes", forecast.manifest_bytes},
            {"memory", forecast.memory()},
            {"plan_memory", forecast.plan_memory},
            {"buffer_memory", forecast.buffer_memory}};
}

void print_forecast(const Forecast& forecast, std::uint64_t bytes_between_hosts, Output& out) {
    const std::pair<const char*, double> phases[] = {{"check files", forecast.check_seconds},
                                                     {"save", forecast.save_seconds},
                                                     {"plan", forecast.plan_seconds},
                                                     {"move", forecast.move.seconds}};
    std::vector<std::string> words;
    for (const auto& [phase, seconds] : phases)
        if (seconds > 0) words.push_back(fmt::format("{} {}", phase, format_seconds(seconds)));
    out.result("estimate  {}: {}\n", format_seconds(forecast.seconds()), fmt::join(words, ", "));
    const Forecast::Bottleneck& move = forecast.move;
    if (!move.resource.empty())
        out.result("          move: {} on {}, {} at {}\n", move.resource, move.host, format_size(move.bytes),
                   format_rate(static_cast<double>(move.bytes) / move.seconds));
    if (!forecast.assumed_rates.empty())
        out.result("          assumed rates: {}\n", fmt::join(forecast.assumed_rates, ", "));
    out.result("messages  {} between hosts, with {}\n", forecast.messages, format_size(bytes_between_hosts));
    if (forecast.metadata.reads > 0)
        out.result("metadata  {} of stores, {}; then {} to each process\n", counted(forecast.metadata.reads, "read"),
                   format_size(forecast.metadata.bytes_read), format_size(forecast.metadata.bytes_shared));
    if (forecast.manifest_bytes > 0)
        out.result("          manifest of {} on each host\n", format_size(forecast.manifest_bytes));
    out.result("memory    {} per process at most: {} for the plan, {} for buffers\n", format_size(forecast.memory()),
               format_size(forecast.plan_memory), format_size(forecast.buffer_memory));
}

}  // namespace tpx::cli
