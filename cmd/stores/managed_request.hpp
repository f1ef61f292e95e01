// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/stores/managed_source.hpp"

#include <optional>
#include <string>
#include <vector>

// What the user asks of tpx migrate --store.
namespace tpx::cli {

/// Whether the options request a change, not only the end of an interrupted switch or pruning.
bool asks_for_change(const MigrateRequest& options);

/// Whether a run only reads the stores: an export, or a run that prints the current state. Then it does not keep other
/// runs from changing them.
bool only_reads(const MigrateRequest& options);

/// Throws Error (usage) if options exclude or require each other, or a name is invalid.
void check_managed_options(const MigrateRequest& options);

/// Throws Error (usage) if --export would write into the store of this host: the next run could remove it.
void check_export_place(const std::filesystem::path& output, const std::filesystem::path& store);

/// The hosts of --rejoin. Throws Error (usage) if one of them is unknown.
std::vector<std::string> rejoining_hosts(const MigrateRequest& options, const Team& team);

/// The user's request as text, without the state that the change starts from: the same for all ways to write it.
/// `layout` and `format` are those of the new state.
std::string request_text(const MigrateRequest& options, const Team& team, const std::string& layout,
                         const std::string& format);

/// 16 hexadecimal digits.
std::string hex(std::uint64_t number);

/// A digest of request_text() for a change of the current state. Throws an mpi::AgreedError if the layout is invalid.
/// Collective.
std::string digest_of_request(const Managed& run);

/// Sets --replicas, if it is not given, to the number of the stores, or to that of the hosts that can store files, if
/// they are fewer; a note then says so. Throws an mpi::AgreedError (usage) if the given number is greater. Collective.
void keep_replicas(const Managed& run, MigrateRequest& options, Output& out);

/// Sets the number of virtual nodes in --to, if it has none, to that of the current state. Collective.
void keep_virtual_nodes(const Managed& run, MigrateRequest& options);

/// Throws an mpi::AgreedError (usage) if --data has another position than the current state, whose position is
/// `stored`: the iteration would train on other samples. Collective.
void check_position_stays(const Managed& run, const nlohmann::ordered_json& stored);

/// Whether the current state is the requested one, and all its files are intact. `request` is its digest.
bool is_done(const Managed& run, const StoreCheck& check, const std::string& request);

}  // namespace tpx::cli
