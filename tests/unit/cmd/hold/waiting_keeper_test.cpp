// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/waiting_keeper.hpp"

#include "cmd/jobs/keeper_client.hpp"
#include "lib/core/error.hpp"
#include "lib/core/memory_file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

using namespace tpx;
using namespace tpx::cli;
namespace fs = std::filesystem;

namespace {

/// A private folder for the sockets of keepers, while the object lives.
struct KeeperFolder {
    test::ScratchFolder folder;
    std::string before;

    KeeperFolder() {
        if (const char* value = std::getenv("XDG_RUNTIME_DIR")) before = value;
        ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
    }
    ~KeeperFolder() { before.empty() ? ::unsetenv("XDG_RUNTIME_DIR") : ::setenv("XDG_RUNTIME_DIR", before.c_str(), 1); }
    KeeperFolder(const KeeperFolder&) = delete;
    KeeperFolder& operator=(const KeeperFolder&) = delete;
};

Fd file_of(const std::string& text) {
    Fd file = make_memory_file("tpx-test", text.size());
    write_at(file, 0, std::as_bytes(std::span{text}), "test");
    return file;
}

/// The state of one rank: a tensor of four bytes.
HeldFiles state_of_rank(int rank) {
    const std::string document = fmt::format(
        R"({{"memory": "host", "rank": {}, "ranks": 2, "iteration": 3, "size": 64, "objects": [], "tensors": [{{"name": "w", "dtype": "float32", "shape": [1], "begin": [0], "sizes": [1], "offset": 0}}]}})",
        rank);
    HeldFiles held;
    held.parts.push_back(make_part(file_of(document), file_of(std::string(64, 'x'))));
    held.save = "save";
    return held;
}

KeeperSettings settings_of(const std::string& name) { return {name, 60, false}; }

}  // namespace

TEST_CASE("a keeper serves only after serve(), until it is released") {
    const KeeperFolder folder;
    int process = 0;
    {
        WaitingKeeper keeper{settings_of("job")};
        keeper.reserve("job");
        CHECK_THROWS_AS(KeeperClient{"job"}.request({{"op", "list"}}, std::chrono::seconds{1}), Error);
        keeper.give(state_of_rank(1));
        process = keeper.serve();
    }
    KeeperClient client{"job"};
    const auto list = client.request({{"op", "list"}});
    CHECK(list["process"] == process);
    CHECK(list["ranks"][0]["rank"] == 1);
    CHECK(list["ranks"][0]["state"] == "held");
    client.request({{"op", "release"}});
    CHECK(::waitpid(process, nullptr, 0) == process);
    CHECK_FALSE(fs::exists(keeper_socket("job")));
}

TEST_CASE("a keeper that does not serve yet ends with its object, and leaves no socket") {
    const KeeperFolder folder;
    {
        WaitingKeeper keeper{settings_of("job")};
        keeper.reserve("job");
        keeper.give(state_of_rank(0));
        CHECK(fs::exists(keeper_socket("job")));
    }
    CHECK_FALSE(fs::exists(keeper_socket("job")));
    CHECK(::waitpid(-1, nullptr, WNOHANG) < 0);  // no child is left
}

TEST_CASE("end() ends a keeper that serves already") {
    const KeeperFolder folder;
    WaitingKeeper keeper{settings_of("job")};
    keeper.reserve("job");
    keeper.give(state_of_rank(0));
    const int process = keeper.serve();
    keeper.end();
    CHECK(::kill(process, 0) != 0);
    CHECK_FALSE(fs::exists(keeper_socket("job")));
}

TEST_CASE("two keepers cannot have the same name, and a process that was killed is noticed") {
    const KeeperFolder folder;
    WaitingKeeper keeper{settings_of("job")};
    keeper.reserve("job");
    WaitingKeeper other{settings_of("job")};
    CHECK_THROWS_AS(other.reserve("job"), Error);
    other.reserve("other");
    other.end();
    CHECK_THROWS_AS(other.serve(), Error);
}
