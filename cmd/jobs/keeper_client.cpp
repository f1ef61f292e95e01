// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/keeper_client.hpp"

#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/local_socket.hpp"

#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view ending = ".sock";
constexpr std::size_t longest_name = 64;

bool is_in_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

bool is_name(const std::string& name) {
    return !name.empty() && name.size() <= longest_name && name.front() != '.' && name.front() != '-' &&
           std::ranges::all_of(name, is_in_name);
}

Error not_held(const std::string& name) {
    std::vector<std::string> names = keeper_names();
    std::erase_if(names, [](const std::string& other) {
        try {
            Fd connection;
            return connect_to(keeper_socket(other), connection) != ConnectResult::connected;
        } catch (const Error&) {
            return true;
        }
    });
    return failure("{}{}: no keeper has this name on this host{}", held_prefix, name,
                   names.empty() ? "" : fmt::format("; keepers: {}", fmt::join(names, ", ")));
}

/// The manifests that were read, by name, with connections that stay open, so that what was found stays there.
std::map<std::string, std::pair<KeeperClient, std::filesystem::path>>& readings() {
    static std::map<std::string, std::pair<KeeperClient, std::filesystem::path>> open;
    return open;
}

/// The manifest in the answer to "read" or "open". The keeper may need minutes to copy state from GPUs, but answers
/// meanwhile. Later calls return the same path.
const std::filesystem::path& manifest_of(const std::string& name, const char* op) {
    constexpr std::chrono::seconds patience{60};
    constexpr std::chrono::milliseconds interval{50};
    auto& open = readings();
    if (const auto known = open.find(name); known != open.end()) return known->second.second;
    KeeperClient keeper{name};
    Json answer = keeper.request({{"op", op}}, patience);
    for (; answer.contains("copying"); answer = keeper.request({{"op", op}}, patience))
        std::this_thread::sleep_for(interval);
    if (!answer.contains("manifest") || !answer["manifest"].is_string())
        throw failure("{}{}: the keeper's answer has no manifest", held_prefix, name);
    const std::string manifest = answer["manifest"].get<std::string>();
    return open.emplace(name, std::pair{std::move(keeper), std::filesystem::path{manifest}}).first->second.second;
}

}  // namespace

std::filesystem::path keeper_socket(const std::string& name) {
    if (!is_name(name))
        throw usage_error(
            "'{}' cannot name held state; use at most {} letters, digits, '.', '_' and '-', and begin with a letter, "
            "a digit or '_'",
            name, longest_name);
    return socket_folder() / (name + std::string{ending});
}

std::vector<std::string> keeper_names() {
    std::vector<std::string> names;
    for (const std::string& file : list_directory(socket_folder()))
        if (file.ends_with(ending) && is_name(file.substr(0, file.size() - ending.size())))
            names.push_back(file.substr(0, file.size() - ending.size()));
    return names;
}

KeeperClient::KeeperClient(const std::string& name) : name_{name} {
    const std::filesystem::path path = keeper_socket(name);
    switch (connect_to(path, connection_)) {
        case ConnectResult::absent:
            throw not_held(name);
        case ConnectResult::abandoned:
            throw failure(
                "{}{}: the keeper was killed and its memory freed; use the checkpoint on disk that it was read from",
                held_prefix, name);
        case ConnectResult::connected:
            break;
    }
    const Peer keeper = peer_of(connection_);
    if (keeper.user != ::geteuid())
        throw failure("{}{}: the keeper belongs to user {}", held_prefix, name, keeper.user);
}

Json KeeperClient::request(const Json& message, std::optional<std::chrono::seconds> wait) {
    return in_context([&] { return fmt::format("{}{}", held_prefix, name_); },
                      [&] {
                          send_message(connection_, message.dump());
                          const auto answer = receive_message(connection_, wait);
                          if (!answer) throw failure("the keeper has ended");
                          const Json json = Json::parse(answer->text, nullptr, false);
                          if (!json.is_object()) throw failure("the keeper's answer is not a JSON object");
                          if (json.contains("error") && json["error"].is_string())
                              throw failure("{}", json["error"].get<std::string>());
                          return json;
                      });
}

bool KeeperClient::has_ended() const {
    struct pollfd state {
        connection_.get(), 0, 0
    };
    return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR)) != 0;
}

bool is_held(const std::filesystem::path& path) { return path.string().starts_with(held_prefix) && !path_exists(path); }

void reject_held_name(const std::string& output) {
    if (is_held(output))
        throw usage_error(
            "'{}' names held state and cannot be an output; write to a folder and add --hold SECONDS, or use "
            "./{} for a folder of this name",
            output, output);
}

std::filesystem::path resolve_held_path(const std::filesystem::path& path) {
    if (!is_held(path)) return path;
    return manifest_of(path.string().substr(held_prefix.size()), "read");
}

std::filesystem::path open_held_in_place(const std::string& name) { return manifest_of(name, "open"); }

void end_held_reading(const std::string& name) { readings().erase(name); }

std::string replace_held_paths(std::string text) {
    for (const auto& [name, reading] : readings()) {
        const std::string folder = reading.second.parent_path().string(), held = fmt::format("{}{}", held_prefix, name);
        for (std::size_t at = 0; (at = text.find(folder, at)) != text.npos; at += held.size())
            text.replace(at, folder.size(), held);
    }
    return text;
}

Error name_taken_error(const std::string& name) {
    return failure("{}{}: state is held under this name already; free it with tpx hold --release {}", held_prefix, name,
                   name);
}

std::string lost_keepers_note() {
    std::string text;
    for (const auto& [name, reading] : readings())
        if (reading.first.has_ended()) text += fmt::format("; the keeper of {}{} has ended", held_prefix, name);
    return text;
}

}  // namespace tpx::cli
