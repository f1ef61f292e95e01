// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/publish.hpp"

#include "lib/core/file.hpp"
#include "lib/core/unfinished.hpp"
#include "lib/exec/stop_signals.hpp"
#include "tests/mpi/scratch.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

using namespace tpx;
namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

// The names of all entries in `directory`.
Names names(const fs::path& directory) {
    Names names;
    for (const auto& entry : fs::directory_iterator{directory}) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

void write_in(const mpi::Comm& comm, const fs::path& directory) {
    std::ofstream{directory / fmt::format("rank{}", comm.rank())} << "new";
}

Naming naming(const fs::path& out, bool force = false) {
    return {.out = out, .force = force, .check_replaceable = [](const fs::path&) {}, .source = "from a test"};
}

// Calls whose n-th rename or synchronization (from 1 on) fails with `code`, as on a file system that can exchange names
// or not.
struct Faults {
    bool exchanges = true;
    int rename = 0;
    int sync = 0;
    int code = EIO;
};
NamingCalls failing(const Faults& faults) {
    auto renames = std::make_shared<int>(0);
    auto syncs = std::make_shared<int>(0);
    const NamingCalls system = NamingCalls::system();
    const auto rename = [=](const char* from, const char* to, unsigned flags) {
        if (flags != 0 && !faults.exchanges) {
            errno = EINVAL;
            return -1;
        }
        if (++*renames == faults.rename) {
            errno = faults.code;
            return -1;
        }
        return system.rename(from, to, flags);
    };
    const auto sync = [=](const char* directory) {
        if (++*syncs == faults.sync) {
            errno = faults.code;
            return -1;
        }
        return system.sync(directory);
    };
    return {rename, sync};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("a committed directory has its name and nothing is left beside it") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    {
        PartialDirectory partial{world, naming(scratch / "out/")};
        CHECK(partial.path().string().starts_with((scratch / "out.partial-").string()));
        write_in(world, partial.path());
        CHECK(partial.commit().fault.empty());
    }
    mpi::barrier(world);
    CHECK(names(scratch / "") == Names{"out"});
    CHECK(names(scratch / "out").size() == std::size_t(world.size()));
}

TEST_CASE("until it is committed, a directory is marked as unfinished, whatever its name") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    {
        PartialDirectory partial{world, naming(scratch / "out")};
        const auto unfinished = find_unfinished(partial.path());
        REQUIRE(unfinished);
        CHECK(unfinished->folder == partial.path());
        CHECK(contains(unfinished->what, "an unfinished output of tpx reshard (from a test to "));
        mpi::barrier(world);
        if (world.rank() == 0) {
            fs::create_directories(scratch / "moved/iter_0000010");
            fs::copy(partial.path() / unfinished_marker, scratch / "moved" / unfinished_marker);
        }
        mpi::barrier(world);
        CHECK(find_unfinished(scratch / "moved/iter_0000010"));
        {
            const ReadUnfinished own{partial.path()};
            CHECK_FALSE(find_unfinished(partial.path()));
            CHECK(find_unfinished(scratch / "moved"));
        }
        CHECK(find_unfinished(partial.path()));
        partial.commit();
        CHECK_FALSE(find_unfinished(scratch / "out"));
    }
}

TEST_CASE("without a commit nothing remains") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    {
        const PartialDirectory partial{world, naming(scratch / "out")};
        write_in(world, partial.path());
        mpi::barrier(world);
    }
    mpi::barrier(world);
    CHECK(names(scratch / "").empty());
}

TEST_CASE("an existing output is kept unless it may be replaced") {
    const mpi::Comm world = mpi::Comm::world();
    for (const bool exchanges : {true, false}) {
        CAPTURE(exchanges);
        const test::Scratch scratch{world};
        scratch.write("out/old", "old");
        CHECK_THROWS_AS((PartialDirectory{world, naming(scratch / "out")}), mpi::AgreedError);
        CHECK(names(scratch / "") == Names{"out"});
        mpi::barrier(world);
        {
            Naming wish = naming(scratch / "out", true);
            wish.calls = failing({.exchanges = exchanges});
            PartialDirectory partial{world, wish};
            write_in(world, partial.path());
            CHECK(names(scratch / "out") == Names{"old"});
            mpi::barrier(world);
            const PublishResult published = partial.commit();
            CHECK(published.fault.empty());
        }
        CHECK(names(scratch / "out").size() == std::size_t(world.size()));
        CHECK(names(scratch / "out")[0] == "rank0");
        mpi::barrier(world);
        CHECK(names(scratch / "") == Names{"out"});
    }
}

TEST_CASE("a file takes the place of a file") {
    const mpi::Comm world = mpi::Comm::world();
    for (const bool exchanges : {true, false}) {
        CAPTURE(exchanges);
        const test::Scratch scratch{world};
        for (const char* content : {"first", "second"}) {
            Naming wish = naming(scratch / "out.pt", true);
            wish.calls = failing({.exchanges = exchanges});
            PartialDirectory partial{world, wish};
            if (world.rank() == 0) std::ofstream{partial.path() / "file"} << content;
            partial.commit_file("file");
            CHECK(read_file(scratch / "out.pt") == content);
            mpi::barrier(world);
        }
        CHECK(names(scratch / "") == Names{"out.pt"});
    }
}

TEST_CASE("--force is recommended only if it would help (T1)") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    scratch.write("out/old", "old");
    Naming wish = naming(scratch / "out");
    const auto attempt = [&] { PartialDirectory{world, wish}; };
    CHECK(contains(test::message_of(attempt), "out: exists; pass --force to replace it"));
    wish.check_replaceable = [](const fs::path&) { throw failure("it is precious"); };
    CHECK(contains(test::message_of(attempt), "out: exists, and --force cannot replace it: it is precious"));
    wish.force = true;
    CHECK(contains(test::message_of(attempt), "out: exists, and --force cannot replace it: it is precious"));
    if (world.rank() == 0) fs::create_directory_symlink(scratch / "out", scratch / "link");
    mpi::barrier(world);
    wish.out = scratch / "link";
    CHECK(contains(test::message_of(attempt), "it is a symbolic link"));
    CHECK(read_file(scratch / "out/old") == "old");
    mpi::barrier(world);
}

TEST_CASE("whatever fails, either the old or the new output has the name, and both exist (T13)") {
    const mpi::Comm world = mpi::Comm::world();
    for (const bool exchanges : {true, false}) {
        for (int rename = 1; rename <= 4; ++rename) {
            CAPTURE(exchanges);
            CAPTURE(rename);
            const test::Scratch scratch{world};
            scratch.write("out/old", "old");
            std::string message;
            {
                Naming wish = naming(scratch / "out", true);
                wish.calls = failing({.exchanges = exchanges, .rename = rename});
                PartialDirectory partial{world, wish};
                if (world.rank() == 0) std::ofstream{partial.path() / "new"} << "new";
                mpi::barrier(world);
                message = test::message_of([&] { partial.commit(); });
            }
            mpi::barrier(world);
            const fs::path out = scratch / "out";
            if (message.empty()) {
                CHECK(read_file(out / "new") == "new");
                continue;
            }
            CHECK(read_file(out / "old") == "old");
            const std::string is_called = "the new output is complete, but is called ";
            REQUIRE(contains(message, is_called));
            const fs::path fresh = message.substr(message.find(is_called) + is_called.size());
            CHECK(read_file(fresh / "new") == "new");
            CHECK_FALSE(find_unfinished(fresh));
            mpi::barrier(world);
        }
    }
}

TEST_CASE("an output in place but perhaps not on disk is not reported as failed, and the old one stays (T20)") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    scratch.write("out/old", "old");
    {
        Naming wish = naming(scratch / "out", true);
        wish.calls = failing({.sync = 3});  // the first two are for the partial folder
        PartialDirectory partial{world, wish};
        if (world.rank() == 0) std::ofstream{partial.path() / "new"} << "new";
        const PublishResult published = partial.commit();
        CHECK(contains(published.fault, "out is complete and in place, but may be lost if the machine crashes"));
    }
    mpi::barrier(world);
    CHECK(read_file(scratch / "out/new") == "new");
    const Names left = names(scratch / "");
    REQUIRE(left.size() == 2);
    CHECK(left[1].starts_with("out.old-"));
    CHECK(read_file(scratch / left[1] / "old") == "old");
    mpi::barrier(world);
}

TEST_CASE("a run that was killed between two renames loses nothing (T13)") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    scratch.write("out.old-77/old", "old");
    scratch.write("out.partial-77/new", "new");
    CHECK(contains(test::message_of([&] { PartialDirectory{world, naming(scratch / "out")}; }), "exists; "));
    CHECK(read_file(scratch / "out/old") == "old");
    mpi::barrier(world);
    {
        const PartialDirectory partial{world, naming(scratch / "out", true)};
        if (world.rank() == 0) {
            REQUIRE(partial.notes().size() == 1);
            CHECK(contains(partial.notes()[0], "out.partial-77 was left by an earlier run"));
        }
        mpi::barrier(world);
    }
    mpi::barrier(world);
    CHECK(names(scratch / "") == Names{"out", "out.partial-77"});
    mpi::barrier(world);
}

TEST_CASE("a run that was killed after it exchanged the names loses nothing") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    scratch.write("out/old", "new");
    fs::path folder;
    {
        const PartialDirectory partial{world, naming(scratch / "out", true)};
        folder = partial.path();
    }
    mpi::barrier(world);
    scratch.write((folder.filename() / "old").string(), "old");
    {
        PartialDirectory partial{world, naming(scratch / "out", true)};
        if (world.rank() == 0) {
            REQUIRE(partial.notes().size() == 1);
            CHECK(contains(partial.notes()[0], "an interrupted run left the output that it replaced"));
        }
        partial.commit();
    }
    mpi::barrier(world);
    const Names left = names(scratch / "");
    REQUIRE(left.size() == 2);
    CHECK(left[1].starts_with("out.replaced-"));
    CHECK(read_file(scratch / left[1] / "old") == "old");
    mpi::barrier(world);
}

TEST_CASE("a folder without a marker is kept if nothing may be replaced") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    fs::path folder;
    {
        const PartialDirectory partial{world, naming(scratch / "out")};
        folder = partial.path();
    }
    mpi::barrier(world);
    scratch.write((folder.filename() / "mine").string(), "mine");
    const std::string message = test::message_of([&] { PartialDirectory{world, naming(scratch / "out")}; });
    CHECK(contains(message, "is not an unfinished output of tpx reshard; move or remove it, or pass --force"));
    CHECK(read_file(folder / "mine") == "mine");
    mpi::barrier(world);
}

TEST_CASE("a replaced output that somebody added to is kept") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    scratch.write("out/old", "old");
    {
        Naming wish = naming(scratch / "out", true);
        wish.check_replaceable = [&](const fs::path& path) {
            if (path != scratch / "out") throw failure("it has a new file");
        };
        PartialDirectory partial{world, wish};
        const PublishResult published = partial.commit();
        CHECK(contains(published.fault, "it has a new file"));
        CHECK(published.durable);
    }
    mpi::barrier(world);
    CHECK(names(scratch / "").size() == 2);
    mpi::barrier(world);
}

TEST_CASE("an output that appeared meanwhile is not overwritten, and the new one is kept") {
    const mpi::Comm world = mpi::Comm::world();
    for (const bool exchanges : {true, false}) {
        const test::Scratch scratch{world};
        fs::path fresh;
        {
            Naming wish = naming(scratch / "out");
            wish.calls = failing({.exchanges = exchanges});
            PartialDirectory partial{world, wish};
            fresh = partial.path();
            scratch.write("out/other", "theirs");
            CHECK_THROWS_AS(partial.commit(), mpi::AgreedError);
        }
        mpi::barrier(world);
        CHECK(read_file(scratch / "out/other") == "theirs");
        CHECK(fs::exists(fresh));
        mpi::barrier(world);
    }
}

TEST_CASE("impossible output names are refused") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    CHECK_THROWS_AS((PartialDirectory{world, naming("/")}), mpi::AgreedError);
    CHECK_THROWS_AS((PartialDirectory{world, naming(".", true)}), mpi::AgreedError);
    CHECK_THROWS_AS((PartialDirectory{world, naming("a/..", true)}), mpi::AgreedError);
    CHECK_THROWS_AS((PartialDirectory{world, naming(scratch / "missing/out")}), mpi::AgreedError);
}

TEST_CASE("ranks that do not see the folder of rank 0 end the run (T2)") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    const test::Scratch other{world};
    // Relative names refer to other folders in other working directories.
    const fs::path before = fs::current_path();
    fs::current_path(world.rank() == 0 ? scratch / "" : other / "");
    const std::string message = test::message_of([&] { PartialDirectory{world, naming("out")}; });
    fs::current_path(before);
    CHECK(message.empty() == (world.size() == 1));
    CHECK((message.empty() || contains(message, "is not the folder that rank 0 created")));
    mpi::barrier(world);
    CHECK(names(scratch / "").empty());
    CHECK(names(other / "").empty());
    mpi::barrier(world);
}

TEST_CASE("the first signal that requests an end is remembered") {
    const StopSignals signals;
    CHECK(signals.signal() == 0);
    raise(SIGUSR1);
    raise(SIGTERM);
    CHECK(signals.signal() == SIGUSR1);
    CHECK(exit_of(SIGUSR1) == Exit::resumable);
    CHECK(exit_of(SIGTERM) == Exit::resumable);
    CHECK(exit_of(SIGINT) == Exit::interrupted);
}
