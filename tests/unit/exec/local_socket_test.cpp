// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/local_socket.hpp"

#include "lib/core/error.hpp"
#include "lib/core/memory_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

using namespace tpx;
namespace fs = std::filesystem;

namespace {

/// A private folder for the sockets of this process, while the object lives.
class SocketScratch {
public:
    SocketScratch() {
        std::string name = (fs::temp_directory_path() / "tpx-socket-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        folder_ = name;
        if (const char* before = std::getenv("XDG_RUNTIME_DIR")) before_ = before;
        ::setenv("XDG_RUNTIME_DIR", name.c_str(), 1);
    }
    ~SocketScratch() {
        before_.empty() ? ::unsetenv("XDG_RUNTIME_DIR") : ::setenv("XDG_RUNTIME_DIR", before_.c_str(), 1);
        fs::remove_all(folder_);
    }
    SocketScratch(const SocketScratch&) = delete;
    SocketScratch& operator=(const SocketScratch&) = delete;

    fs::path path() const { return socket_folder() / "name.sock"; }
    const fs::path& folder() const { return folder_; }

private:
    fs::path folder_;
    std::string before_;
};

struct Pair {
    Fd near, far;
};

Pair connected(const fs::path& path, const Fd& listener) {
    Pair pair;
    REQUIRE(connect_to(path, pair.near) == ConnectResult::connected);
    auto far = accept_at(listener);
    REQUIRE(far);
    pair.far = std::move(*far);
    return pair;
}

std::size_t open_files() { return std::size_t(std::distance(fs::directory_iterator{"/proc/self/fd"}, {})); }

}  // namespace

TEST_CASE("a socket can be absent, connected, in use, abandoned and replaced") {
    const SocketScratch scratch;
    Fd other;
    CHECK(connect_to(scratch.path(), other) == ConnectResult::absent);
    {
        const auto listener = listen_at(scratch.path());
        REQUIRE(listener);
        CHECK_FALSE(accept_at(*listener));
        const Pair pair = connected(scratch.path(), *listener);
        CHECK(peer_of(pair.far).pid == ::getpid());
        CHECK(peer_of(pair.far).user == ::geteuid());
        CHECK_FALSE(listen_at(scratch.path()));
    }
    CHECK(connect_to(scratch.path(), other) == ConnectResult::abandoned);
    const auto again = listen_at(scratch.path());
    REQUIRE(again);
    struct stat status {};
    REQUIRE(::stat(scratch.path().c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("messages arrive whole, one by one, with their files") {
    const SocketScratch scratch;
    const auto listener = listen_at(scratch.path());
    const Pair pair = connected(scratch.path(), *listener);
    const Fd file = make_memory_file("sent", 5);
    REQUIRE(::pwrite(file.get(), "bytes", 5, 0) == 5);
    const int sent[] = {file.get(), file.get()};
    const std::string longest(max_message_bytes, 'x');
    send_message(pair.near, "first", sent);
    send_message(pair.near, longest);
    const auto first = receive_message(pair.far);
    REQUIRE(first);
    CHECK(first->text == "first");
    REQUIRE(first->files.size() == 2);
    std::string text(5, ' ');
    CHECK(::pread(first->files[1].get(), text.data(), 5, 0) == 5);
    CHECK(text == "bytes");
    CHECK((::fcntl(first->files[1].get(), F_GETFD) & FD_CLOEXEC) != 0);
    const auto second = receive_message(pair.far);
    REQUIRE(second);
    CHECK(second->text == longest);
    CHECK(second->files.empty());
}

TEST_CASE("a message that is too long is refused, and its files are closed") {
    const SocketScratch scratch;
    const auto listener = listen_at(scratch.path());
    const Pair pair = connected(scratch.path(), *listener);
    const std::size_t before = open_files();
    const int sent[] = {pair.near.get()};
    send_message(pair.near, std::string(max_message_bytes + 1, 'x'), sent);
    CHECK_THROWS_WITH_AS(receive_message(pair.far), doctest::Contains("longer than 131072 bytes"), Error);
    CHECK(open_files() == before);
}

TEST_CASE("an error is thrown if the other end is closed or does not answer") {
    const SocketScratch scratch;
    const auto listener = listen_at(scratch.path());
    Pair pair = connected(scratch.path(), *listener);
    CHECK_THROWS_WITH_AS(receive_message(pair.near, std::chrono::seconds{1}), "no answer in 1 s", Error);
    pair.far = Fd{};
    CHECK_FALSE(receive_message(pair.near, std::chrono::seconds{1}));
    CHECK_THROWS_AS(send_message(pair.near, "text"), Error);
}

TEST_CASE("the folder of sockets is private to the user") {
    const SocketScratch scratch;
    CHECK(socket_folder() == scratch.folder() / "tpx");
    fs::permissions(scratch.folder() / "tpx", fs::perms::all);
    CHECK_THROWS_WITH_AS(socket_folder(), doctest::Contains("not a private folder"), Error);
    ::setenv("XDG_RUNTIME_DIR", (scratch.folder() / "missing").c_str(), 1);
    CHECK(socket_folder() == fs::path{"/tmp/tpx-" + std::to_string(::geteuid())});
    ::setenv("XDG_RUNTIME_DIR", scratch.folder().c_str(), 1);
    fs::permissions(scratch.folder() / "tpx", fs::perms::owner_all);
    CHECK_THROWS_WITH_AS(listen_at(socket_folder() / std::string(200, 'n')), doctest::Contains("too long for a socket"),
                         Error);
}
