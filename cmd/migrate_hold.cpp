// SPDX-License-Identifier: Apache-2.0
#include "cmd/migrate_hold.hpp"

#include "cmd/hold_output.hpp"
#include "cmd/keeper_client.hpp"
#include "formats/stores.hpp"
#include "lib/exec/publish.hpp"

namespace tpx::cli {
namespace {

const std::string& pattern_of(const MigrateRequest& options) {
    return options.store.empty() ? options.output : options.store;
}

std::string name_on(const Host& host, const MigrateRequest& options) {
    if (options.hold_name.empty()) return hold_name_of(formats::store_of(pattern_of(options), host).string());
    if (options.hold_name.find("{host}") == std::string::npos) return options.hold_name;
    return formats::store_of(options.hold_name, host).string();
}

}  // namespace

void check_hold(const mpi::Comm& comm, const MigrateRequest& options, const Team& team) {
    mpi::all_or_none(comm, [&] {
        if (!options.hold_name.empty() && options.hold.empty())
            throw usage_error("--hold-name: requires --hold SECONDS");
        if (options.hold.empty()) return;
        if (!options.export_to.empty()) throw usage_error("--hold cannot be used with --export");
        if (team.is_first(comm.rank())) check_hold(name_on(team.hosts[team.host], options), options.hold);
    });
}

void hold_state(const mpi::Comm& comm, const MigrateRequest& options, const Team& team,
                const std::filesystem::path& folder, const RankPlaces& places, Output& out) {
    if (options.hold.empty()) return;
    HeldOutput held{folder.string(), "", options.hold, to_string(places.layout), {}};
    for (std::size_t rank = 0; rank < places.host_of_rank.size(); ++rank)
        if (places.host_of_rank[rank] == team.host) held.ranks.push_back(static_cast<int>(rank));
    try {
        mpi::all_or_none(comm, [&] {
            if (held.ranks.empty() || !team.is_first(comm.rank())) return;
            held.name = name_on(team.hosts[team.host], options);
            start_hold(held, options.plan);
        });
    } catch (const mpi::AgreedError& error) {
        throw mpi::AgreedError{
            Error{exit_after_commit, "{}; {} is complete and in place", error.what(), pattern_of(options)}};
    }
    out.note(
        "each host also holds the state of its ranks in memory, as {}{}", held_prefix,
        options.hold_name.empty() ? std::filesystem::path{pattern_of(options)}.filename().string() : options.hold_name);
}

}  // namespace tpx::cli
