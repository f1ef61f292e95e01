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

// Messages with file descriptors between processes of one user on one host.
namespace tpx {

/// The folder of this user's sockets: $XDG_RUNTIME_DIR/tpx if that variable names a folder, else /tmp/tpx-UID. Creates
/// it if needed. Throws Error if it belongs to another user or others can write to it.
std::filesystem::path socket_folder();

/// A socket at `path` to which other processes can connect; replaces a socket whose process has ended. Nothing if a
/// process listens there.
std::optional<Fd> listen_at(const std::filesystem::path& path);

/// Identifies a socket file by device and inode, so that remove() never deletes a successor's.
class SocketFile {
public:
    SocketFile() = default;
    explicit SocketFile(std::filesystem::path path);

    const std::filesystem::path& path() const { return path_; }

    /// Removes the file, unless another one has taken its place. Never throws.
    void remove() const;

private:
    std::filesystem::path path_;
    dev_t device_ = 0;
    ino_t inode_ = 0;
};

/// How an attempt to connect ended.
enum class ConnectResult { connected, absent, abandoned };

/// Connects to the socket at `path`: absent if there is none, abandoned if its process has ended. Throws Error for
/// anything else, such as a socket of another user.
ConnectResult connect_to(const std::filesystem::path& path, Fd& connection);

/// The process at the other end.
struct Peer {
    pid_t pid = 0;
    uid_t user = 0;
};
Peer peer_of(const Fd& connection);

/// Accepts a connection that waits at `listener`, as a non-blocking descriptor. Returns nothing, at once, if none
/// waits.
std::optional<Fd> accept_at(const Fd& listener);

struct LocalMessage {
    std::string text;
    std::vector<Fd> files;
};

/// The longest text of a message in bytes, and the most files.
inline constexpr std::size_t max_message_bytes = std::size_t{128} << 10;
inline constexpr std::size_t max_message_files = 8;

/// Sends one message. Throws Error if it cannot be sent, for example because the other end does not read.
void send_message(const Fd& connection, std::string_view text, std::span<const int> files = {});

/// The next message; waits for it unless the connection is non-blocking. Nothing if the other end is closed. Throws
/// Error for messages that are too long and, if `wait` is given, when no message arrives in that time.
std::optional<LocalMessage> receive_message(const Fd& connection, std::optional<std::chrono::seconds> wait = {});

}  // namespace tpx
