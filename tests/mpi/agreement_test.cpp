// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/agreement.hpp"

#include "lib/core/file.hpp"
#include "tests/mpi/scratch.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <array>

using namespace tpx;

namespace {

/// While it exists, this thread sees another host name, if that is permitted.
class OtherHost {
public:
    explicit OtherHost(const std::string& name) : before_{open_file("/proc/self/ns/uts", O_RDONLY)} {
        moved_ = ::unshare(CLONE_NEWUTS) == 0 && ::sethostname(name.data(), name.size()) == 0;
    }
    ~OtherHost() {
        if (moved_) ::setns(before_.get(), CLONE_NEWUTS);
    }
    OtherHost(const OtherHost&) = delete;
    OtherHost& operator=(const OtherHost&) = delete;

    bool has_moved() const { return moved_; }

private:
    Fd before_;
    bool moved_ = false;
};

}  // namespace

TEST_CASE("ranks with the same claims continue") {
    const mpi::Comm world = mpi::Comm::world();
    CHECK_NOTHROW(require_same(world, {}));
    CHECK_NOTHROW(require_same(world, {{"a", "1", "x"}, {"b", "2", ""}}));
}

TEST_CASE("ranks with different claims are named, with the first difference (T2)") {
    const mpi::Comm world = mpi::Comm::world();
    if (world.size() == 1) return;
    const int last = world.size() - 1;
    std::vector<Claim> claims{{"a", "1", ""}, {"b", "2", "inode 7"}};
    if (world.rank() == last) claims[1].local = "inode 8";
    CHECK(test::message_of([&] { require_same(world, claims); })
              .starts_with(fmt::format("rank {} and rank 0 disagree: b: 2, inode 8; on rank 0: 2, inode 7; "
                                       "start all processes ",
                                       last)));
    claims[1] = world.rank() == 0 ? Claim{"b", "2", ""} : Claim{"b", "3", ""};
    CHECK(test::message_of([&] { require_same(world, claims); }).find("b: 3; on rank 0: 2;") != std::string::npos);
    if (world.rank() == 1) claims.pop_back();
    claims.push_back({"c", "4", ""});
    CHECK(test::message_of([&] { require_same(world, claims); }).find("disagree: b: only on rank 0;") !=
          std::string::npos);
}

TEST_CASE("ranks on several hosts that see different files are named with their hosts (T2)") {
    const mpi::Comm world = mpi::Comm::world();
    if (world.size() == 1) return;
    const bool elsewhere = world.rank() > world.size() / 2 || world.size() == 2;
    const OtherHost host{fmt::format("tpx-host{}", elsewhere ? world.rank() : 0)};
    std::array<std::uint64_t, 1> moved{host.has_moved() ? 1u : 0u};
    mpi::all_min(world, moved);
    if (moved[0] == 0) {
        MESSAGE("skipped: host names cannot be changed");
        return;
    }
    const std::vector<Claim> claims{{"model.safetensors", world.rank() == 0 ? "7 bytes" : "8 bytes", ""}};
    const std::string expected = world.size() == 2 ? "rank 1 on host tpx-host1"
                                                   : "ranks 1 and 2 on host tpx-host0, rank 3 on host tpx-host3 and "
                                                     "rank 4 on host tpx-host4";
    if (world.size() != 2 && world.size() != 5) return;
    CHECK(test::message_of([&] { require_same(world, claims); })
              .starts_with(expected +
                           " and rank 0 on host tpx-host0 disagree: model.safetensors: 8 bytes; on rank 0: 7 "
                           "bytes;"));
}

TEST_CASE("a file that changes between the first look and the last ends the run on all ranks (T16)") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    scratch.write("steady", "content");
    scratch.write("changing", "content");
    ReadRecord record;
    open_file(scratch / "steady", O_RDONLY);
    size_of_file(scratch / "changing");
    record.seal();
    CHECK_NOTHROW(require_same(world, claims_of(world, record, scratch / "")));
    CHECK_NOTHROW(check_unchanged(world, record));
    scratch.write("changing", "CONTENT");
    const std::string message = test::message_of([&] { check_unchanged(world, record); });
    CHECK(message.find("changing: changed while tpx was reading the checkpoint") != std::string::npos);
    CHECK_THROWS_AS(open_file(scratch / "changing", O_RDONLY), Error);
    mpi::barrier(world);
}
