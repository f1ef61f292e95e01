// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migrate_hold.hpp"

#include "cmd/hold/hold_gpus.hpp"
#include "cmd/hold/hold_output.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/jobs/open_checkpoint.hpp"
#include "formats/convert/rank_holdings.hpp"
#include "formats/driver.hpp"
#include "formats/files/merged_stores.hpp"
#include "lib/core/error.hpp"
#include "lib/core/host_name.hpp"
#include "lib/exec/publish.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <vector>

namespace tpx::cli {
namespace {

const std::string& pattern_of(const MigrateRequest& options) {
    return options.store.empty() ? options.output : options.store;
}

/// The name of the held state on each host, in which "{host}" stands for the name of the host.
std::string name_pattern(const MigrateRequest& options) {
    if (!options.hold_name.empty()) return options.hold_name;
    return std::filesystem::path{without_slashes(pattern_of(options))}.filename().string();
}

std::string name_on(const Host& host, const MigrateRequest& options) {
    const std::string pattern = name_pattern(options);
    const std::string name =
        pattern.find("{host}") == std::string::npos ? pattern : formats::store_of(pattern, host).string();
    return options.hold_name.empty() ? hold_name_of(name) : name;
}

void release(const std::string& name) {
    constexpr std::chrono::seconds patience{10};
    try {
        KeeperClient{name}.request({{"op", "release"}}, patience);
    } catch (const Error&) {  // the keeper has ended
    }
}

}  // namespace

void check_hold_names(const mpi::Comm& comm, const MigrateRequest& options, const Team& team) {
    std::string name;
    mpi::all_or_none(comm, [&] {
        if (!options.hold_name.empty() && options.hold.empty())
            throw usage_error("--hold-name: requires --hold SECONDS");
        if (!options.hold_device.empty() && options.hold.empty())
            throw usage_error("--hold-device: requires --hold SECONDS");
        for (const std::string& written : {options.store, options.output, options.export_to}) reject_held_name(written);
        if (options.hold.empty()) return;
        if (!options.export_to.empty()) throw usage_error("--hold cannot be used with --export");
        if (!team.is_first(comm.rank())) return;
        name = name_on(team.hosts[team.host], options);
        check_hold(name, options.hold);
    });
    if (options.hold.empty()) return;
    std::set<std::string> used;
    const std::vector<std::string> all = mpi::all_gather(comm, name.empty() ? "" : host_name() + '\n' + name);
    for (const std::string& one : all)
        if (!one.empty() && !used.insert(one).second)
            throw mpi::AgreedError{usage_error("--hold-name: {} of this machine have the name '{}'; use {{host}} in it",
                                               std::ranges::count(all, one) == 2 ? "two hosts" : "several hosts",
                                               one.substr(one.find('\n') + 1))};
}

void check_hold_of_parts(const MigrateRequest& options, const Migration& job) {
    const formats::Format format = job.target.format;
    if (options.hold.empty() || format->splits_by_holders) return;
    for (const std::uint32_t host : hosts_of_ranks(job))
        if (std::ranges::count(job.files_of_hosts[host], false) > 0)
            throw usage_error(
                "--hold: each host gets only some of the files, and a checkpoint of format {} can only be held as a "
                "whole; use --format dcp or torch_dist",
                formats::name(format));
}

void check_hold_memory(const mpi::Comm& comm, const MigrateRequest& options, const Team& team, const Migration& job) {
    if (options.hold.empty() || options.hold_device != "cuda" || !team.is_first(comm.rank())) return;
    constexpr std::uint64_t alignment = 64;  // of tensors in a segment
    const RankPlaces places = rank_places(job);
    std::map<int, std::uint64_t> bytes_of_rank;
    for (std::size_t rank = 0; rank < places.host_of_rank.size(); ++rank)
        if (places.host_of_rank[rank] == team.host) bytes_of_rank[static_cast<int>(rank)];
    for (const Piece& piece : formats::needed_pieces(job.opened.source, job.conversion, job.target).pieces) {
        const auto rank = bytes_of_rank.find(piece.rank);
        if (rank == bytes_of_rank.end()) continue;
        const DType dtype = job.conversion.target_tensors[piece.tensor].dtype;
        const auto size = static_cast<std::uint64_t>(volume(piece.box) * itemsize(dtype));
        rank->second += (size + alignment - 1) / alignment * alignment;
    }
    std::vector<int> ranks, gpus;
    std::vector<std::uint64_t> bytes;
    for (const auto& [rank, size] : bytes_of_rank) {
        ranks.push_back(rank);
        gpus.push_back(places.device_of_rank[static_cast<std::size_t>(rank)]);
        bytes.push_back(size);
    }
    if (ranks.empty()) return;
    in_context([&] { return fmt::format("--hold-device cuda: host {}", team.hosts[team.host].name); },
               [&] { check_gpu_memory(ranks, gpus, bytes); });
}

void hold_state(const mpi::Comm& comm, const MigrateRequest& options, const Team& team,
                const std::filesystem::path& folder, const RankPlaces& places, HeldState state, Output& out) {
    if (options.hold.empty()) return;
    HeldOutput held{folder.string(), "", options.hold, options.hold_device, to_string(places.layout), {}, {}};
    for (std::size_t rank = 0; rank < places.host_of_rank.size(); ++rank)
        if (places.host_of_rank[rank] == team.host) {
            held.ranks.push_back(static_cast<int>(rank));
            held.rank_gpus.push_back(places.device_of_rank[rank]);
        }
    bool is_held = false;
    const StopSignals signals;
    signals.shield();  // the state is in place
    try {
        mpi::all_or_none(comm, [&] {
            if (held.ranks.empty() || !team.is_first(comm.rank())) return;
            held.name = name_on(team.hosts[team.host], options);
            start_hold(held, options.plan, signals);
            is_held = true;
        });
    } catch (const mpi::AgreedError& error) {
        if (is_held) release(held.name);
        if (state == HeldState::unchanged) throw;
        throw mpi::AgreedError{Error{exit_after_commit, "{}; {} is complete and in place, and not held", error.what(),
                                     pattern_of(options)}};
    }
    out.note("the state of each host's ranks is also held in memory, as {}{}", held_prefix, name_pattern(options));
}

}  // namespace tpx::cli
