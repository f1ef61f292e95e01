// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/local_socket.hpp"

#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tpx {
namespace {

namespace fs = std::filesystem;

struct sockaddr_un address_of(const fs::path& path) {
    struct sockaddr_un address {};
    address.sun_family = AF_UNIX;
    const std::string text = path.string();
    if (text.size() >= sizeof address.sun_path)
        throw failure("{}: too long for a socket ({} bytes, at most {}); set XDG_RUNTIME_DIR to a shorter path", text,
                      text.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path, text.data(), text.size());
    return address;
}

Fd make_socket(const fs::path& path, int flags = 0) {
    Fd fd{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0)};
    if (!fd) throw system_failure(path, errno);
    return fd;
}

void check_folder(const fs::path& folder) {
    struct stat status {};
    if (::lstat(folder.c_str(), &status) != 0) throw system_failure(folder, errno);
    if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 022) != 0)
        throw failure("{}: not a private folder of user {}; run chmod 700 {}, or remove it", folder.string(),
                      ::geteuid(), folder.string());
}

}  // namespace

fs::path socket_folder() {
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    // Jobs inherit the variable from the shell that submitted them, and its folder may not exist on their hosts.
    const bool usable = runtime != nullptr && fs::path{runtime}.is_absolute() && path_is_directory(runtime);
    const fs::path folder = usable ? fs::path{runtime} / "tpx" : fs::path{fmt::format("/tmp/tpx-{}", ::geteuid())};
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw system_failure(folder, errno);
    check_folder(folder);
    return folder;
}

std::optional<Fd> listen_at(const fs::path& path) {
    const auto address = address_of(path);
    const Fd folder = open_file(path.parent_path(), O_RDONLY | O_DIRECTORY);
    // Two processes that find the same abandoned socket must not both replace it.
    if (::flock(folder.get(), LOCK_EX) != 0) throw system_failure(path.parent_path(), errno);
    Fd other;
    if (connect_to(path, other) == ConnectResult::connected) return std::nullopt;
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw system_failure(path, errno);
    // A client that goes away between poll and accept must not make accept wait for the next one.
    Fd fd = make_socket(path, SOCK_NONBLOCK);
    const mode_t mask = ::umask(0177);
    const int bound = ::bind(fd.get(), reinterpret_cast<const struct sockaddr*>(&address), sizeof address);
    const int code = errno;
    ::umask(mask);
    if (bound != 0) throw system_failure(path, code);
    if (::listen(fd.get(), SOMAXCONN) != 0) throw system_failure(path, errno);
    return fd;
}

SocketFile::SocketFile(fs::path path) : path_{std::move(path)} {
    struct stat status {};
    if (::lstat(path_.c_str(), &status) != 0) return;
    device_ = status.st_dev;
    inode_ = status.st_ino;
}

void SocketFile::remove() const {
    const Fd folder{::open(path_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!folder || ::flock(folder.get(), LOCK_EX) != 0) return;  // locks out listen_at()
    struct stat status {};
    if (::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_)
        ::unlink(path_.c_str());
}

ConnectResult connect_to(const fs::path& path, Fd& connection) {
    const auto address = address_of(path);
    connection = make_socket(path);
    int result = 0;
    do {
        result = ::connect(connection.get(), reinterpret_cast<const struct sockaddr*>(&address), sizeof address);
    } while (result != 0 && errno == EINTR);
    if (result == 0) return ConnectResult::connected;
    if (errno == ENOENT || errno == ENOTDIR) return ConnectResult::absent;
    if (errno == ECONNREFUSED) return ConnectResult::abandoned;
    throw system_failure(path, errno);
}

Peer peer_of(const Fd& connection) {
    struct ucred peer {};
    socklen_t length = sizeof peer;
    if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        throw failure("socket: {}", std::strerror(errno));
    return {peer.pid, peer.uid};
}

std::optional<Fd> accept_at(const Fd& listener) {
    Fd fd{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    return fd ? std::optional{std::move(fd)} : std::nullopt;
}

void send_message(const Fd& connection, std::string_view text, std::span<const int> files) {
    struct iovec data {
        const_cast<char*>(text.data()), text.size()
    };
    alignas(struct cmsghdr) std::array<char, CMSG_SPACE(max_message_files * sizeof(int))> control{};
    struct msghdr message {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (!files.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(files.size_bytes());
        struct cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(files.size_bytes());
        std::memcpy(CMSG_DATA(header), files.data(), files.size_bytes());
    }
    ssize_t sent = 0;
    do {
        sent = ::sendmsg(connection.get(), &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) throw failure("socket: {}", std::strerror(errno));
}

std::optional<LocalMessage> receive_message(const Fd& connection, std::optional<std::chrono::seconds> wait) {
    struct pollfd ready {
        connection.get(), POLLIN, 0
    };
    int arrived = 0;
    do {
        if (wait) arrived = ::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds{*wait}.count()));
    } while (arrived < 0 && errno == EINTR);
    if (wait && arrived == 0) throw failure("no answer in {} s", wait->count());
    LocalMessage received;
    received.text.resize(max_message_bytes);
    struct iovec data {
        received.text.data(), received.text.size()
    };
    alignas(struct cmsghdr) std::array<char, CMSG_SPACE(max_message_files * sizeof(int))> control{};
    struct msghdr message {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t got = 0;
    do {
        got = ::recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == ECONNRESET) return std::nullopt;
    if (got < 0) throw failure("socket: {}", std::strerror(errno));
    for (struct cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        for (std::size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
            received.files.emplace_back(fd);
        }
    }
    if (got == 0) return std::nullopt;
    if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
        throw failure("the message is longer than {} bytes or has more than {} files", max_message_bytes,
                      max_message_files);
    received.text.resize(static_cast<std::size_t>(got));
    return received;
}

}  // namespace tpx
