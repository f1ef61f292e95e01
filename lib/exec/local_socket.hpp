// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Messages with descriptors between processes of one user on one host.
namespace tpx {

/// The folder of this user's sockets: $XDG_RUNTIME_DIR/tpx if that variable names a folder, else /tmp/tpx-UID. Makes it
/// if need be. Throws Error if it belongs to somebody else or others may write to it.
std::filesystem::path socket_folder();

/// A socket at `path` that others can connect to; one that an ended process left is replaced. Nothing if a process
/// listens there.
std::optional<Fd> listen_at(const std::filesystem::path& path);

/// How an attempt to connect ended.
enum class Contact { connected, absent, abandoned };

/// Connects to the socket at `path`: absent if there is none, abandoned if its process has ended. Throws Error for
/// anything else, such as a socket of another user.
Contact connect_to(const std::filesystem::path& path, Fd& connection);

/// The process at the other end.
struct Peer {
    pid_t pid = 0;
    uid_t user = 0;
};
Peer peer_of(const Fd& connection);

/// A connection that waits at `listener`, as a descriptor that does not block. Nothing, at once, if none waits.
std::optional<Fd> accept_at(const Fd& listener);

struct LocalMessage {
    std::string text;
    std::vector<Fd> files;
};

/// The longest text of a message in bytes, and the most files.
inline constexpr std::size_t longest_message = std::size_t{128} << 10;
inline constexpr std::size_t most_files = 8;

/// Sends one message. Throws Error if it cannot be sent, also if the other end does not read.
void send_message(const Fd& connection, std::string_view text, std::span<const int> files = {});

/// The next message, for which it waits unless the connection does not block; nothing if the other end is closed.
/// Throws Error for messages that are too long, and after `wait` without one, if `wait` is given.
std::optional<LocalMessage> receive_message(const Fd& connection, std::optional<std::chrono::seconds> wait = {});

}  // namespace tpx
