// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/stores/managed_source.hpp"

#include <optional>
#include <string>
#include <vector>

// What the user asks of tpx migrate --store.
namespace tpx::cli {

/// Whether the options request a change of the state, not only pruning or the end of an interrupted switch.
bool asks_for_change(const MigrateRequest& options);

/// Whether a run only reads the stores: an export, or a run that prints the current state. Such a run does not keep
/// other runs from changing the stores.
bool only_reads(const MigrateRequest& options);

/// Throws Error (usage) if options conflict, if one lacks an option that it requires, or if --job or --within is
/// invalid.
void check_managed_options(const MigrateRequest& options);

/// Throws Error (usage) if --export would write into the store of this host: the next run could remove it.
void check_export_place(const std::filesystem::path& output, const std::filesystem::path& store);

/// The hosts of --rejoin. Throws Error (usage) if one of them is unknown.
std::vector<std::string> rejoining_hosts(const MigrateRequest& options, const Team& team);

/// The user's request as text, the same for all ways to write it. Does not depend on the state that the change starts
/// from. `layout` and `format` are those of the new state.
std::string request_text(const MigrateRequest& options, const Team& team, const std::string& layout,
                         const std::string& format);

/// 16 hexadecimal digits.
std::string hex(std::uint64_t number);

/// A digest of request_text() for a change of the current state. Throws an mpi::AgreedError if the layout is invalid.
/// Collective.
std::string digest_of_request(const ManagedRun& run);

/// If --replicas is not given, sets it to the value in the stores or, if fewer hosts can store files, to their number,
/// with a note. Throws an mpi::AgreedError (usage) if the given value exceeds the number of these hosts. Collective.
void keep_replicas(const ManagedRun& run, MigrateRequest& options, Output& out);

/// If --to has no number of virtual nodes, sets it to that of the current state. Collective.
void keep_virtual_nodes(const ManagedRun& run, MigrateRequest& options);

/// Throws an mpi::AgreedError (usage) if the position in --data differs from `stored`, the position in the current
/// state: the iteration would train on other samples. Collective.
void check_position_stays(const ManagedRun& run, const nlohmann::ordered_json& stored);

/// Whether the current state is the requested one, and all its files are intact. `request` is the digest of the
/// request.
bool is_done(const ManagedRun& run, const StoreCheck& check, const std::string& request);

}  // namespace tpx::cli
