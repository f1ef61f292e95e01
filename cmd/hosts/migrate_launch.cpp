// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migrate_launch.hpp"

#include "cmd/output/output_file.hpp"
#include "formats/files/merged_stores.hpp"
#include "formats/files/plan/launch_script.hpp"
#include "lib/core/write_file.hpp"
#include "lib/exec/publish.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

/// The placement of the ranks, with a block for consecutive ranks on the same host.
Placement placement_of(const RankPlaces& places) {
    const std::vector<std::int32_t> firsts = first_devices(places.hosts);
    Placement placement;
    for (std::size_t rank = 0; rank < places.host_of_rank.size(); ++rank) {
        const std::uint32_t host = places.host_of_rank[rank];
        const auto number = static_cast<std::int32_t>(rank);
        placement.devices.push_back(firsts[host] + places.device_of_rank[rank]);
        if (placement.blocks.empty() || placement.blocks.back().host != host)
            placement.blocks.push_back({.begin = number, .host = host});
        placement.blocks.back().end = number + 1;
    }
    return placement;
}

/// The folder of each host; empty without a pattern.
std::vector<std::filesystem::path> folders_of(std::span<const Host> hosts, const std::string& pattern) {
    std::vector<std::filesystem::path> folders;
    if (pattern.empty()) return folders;
    for (const Host& host : hosts) folders.push_back(formats::store_of(pattern, host));
    return folders;
}

formats::LaunchFolders folders_of(std::span<const Host> hosts, const LaunchPatterns& patterns) {
    return {folders_of(hosts, patterns.state), folders_of(hosts, patterns.data)};
}

}  // namespace

void check_launch(const mpi::Comm& comm, const MigrateRequest& options, std::span<const Host> hosts,
                  const LaunchPatterns& patterns) {
    if (options.plan.launch.empty()) return;
    mpi::all_or_none(comm, [&] {
        if (!options.export_to.empty()) throw usage_error("--launch cannot be used with --export");
        if (comm.rank() != 0) return;
        const formats::LaunchFolders folders = folders_of(hosts, patterns);
        formats::check_launch_names(hosts, folders);
        for (const std::filesystem::path& folder : folders.states)
            check_outside(folder.string(), {{"--launch", options.plan.launch}});
        if (!options.dry_run) check_writable(options.plan.launch);
    });
}

void write_launch(const mpi::Comm& comm, const MigrateRequest& options, const RankPlaces& places,
                  const LaunchPatterns& patterns) {
    if (options.plan.launch.empty()) return;
    try {
        mpi::all_or_none(comm, [&] {
            if (comm.rank() != 0) return;
            const std::string script = formats::launch_script(
                places.hosts, placement_of(places), to_string(places.layout), folders_of(places.hosts, patterns));
            write_file(options.plan.launch, script);
        });
    } catch (const mpi::AgreedError& error) {
        throw mpi::AgreedError{
            Error{exit_after_commit, "{}; the state in {} is complete and in place", error.what(), patterns.state}};
    }
}

}  // namespace tpx::cli
