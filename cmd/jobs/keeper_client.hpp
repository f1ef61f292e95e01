// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Requests to keepers, the processes that hold training state in memory; tpx-hold(1) describes the messages.
namespace tpx::cli {

/// How a checkpoint is named that a keeper holds.
inline constexpr std::string_view held_prefix = "hold:";

/// The socket of the keeper `name`. Throws Error (usage) unless it can be the name of one.
std::filesystem::path keeper_socket(const std::string& name);

/// The names of all keepers of this user that have a socket, sorted; some may have ended.
std::vector<std::string> keeper_names();

/// A connection to a keeper.
class KeeperClient {
public:
    /// Throws Error if no keeper of this user has that name, or if it has ended.
    explicit KeeperClient(const std::string& name);

    /// Sends a request and returns the answer. Throws Error with the keeper's own message if it refuses, and if it does
    /// not answer in `wait`; a keeper that still reads its checkpoint answers when it has done so.
    nlohmann::ordered_json request(const nlohmann::ordered_json& message,
                                   std::optional<std::chrono::seconds> wait = {});

    bool has_ended() const;

private:
    std::string name_;
    Fd connection_;
};

/// Whether `path` is "hold:NAME", and no file has that name.
bool is_held(const std::filesystem::path& path);

/// Throws Error (usage) if `output` is "hold:NAME": only --hold leaves state in memory, in addition to an output on
/// disk.
void reject_held_name(const std::string& output);

/// For "hold:NAME", the path of the keeper's manifest, which stays valid until this process ends; otherwise `path`.
/// Throws Error as KeeperClient does.
std::filesystem::path resolve_held_path(const std::filesystem::path& path);

/// The manifest of the state `name` where it is, also in memory of GPUs, as op "open" gives it. From now on
/// resolve_held_path() returns this path. Throws Error as KeeperClient does, and if the keeper does not know this
/// request.
std::filesystem::path open_held_in_place(const std::string& name);

/// Ends the reading of `name`, so that resolve_held_path() asks the keeper anew.
void end_held_reading(const std::string& name);

/// "; the keeper of hold:NAME has ended" for each keeper of which this process read state and that has ended since: the
/// reason why files of its state are missing. Else empty.
std::string lost_keepers_note();

/// `text` with the names of held state in place of the paths below /proc under which this process reads it.
std::string replace_held_paths(std::string text);

/// State of this name is held on this host.
Error name_taken_error(const std::string& name);

}  // namespace tpx::cli
