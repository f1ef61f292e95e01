// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/publish.hpp"

#include "lib/core/file.hpp"
#include "lib/exec/signals.hpp"
#include "tests/mpi/scratch.hpp"

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <vector>

using namespace tpx;
namespace fs = std::filesystem;

namespace {

// The names of all that lies in `directory`.
std::vector<std::string> names(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator{directory}) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

void write_in(const mpi::Comm& comm, const fs::path& directory) {
    std::ofstream{directory / fmt::format("rank{}", comm.rank())} << "new";
}

}  // namespace

TEST_CASE("a committed directory has its name and nothing is left beside it") {
    const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
    const test::Scratch scratch{world};
    {
        PartialDirectory partial{world, scratch / "out/", false};
        CHECK(partial.path().string().starts_with((scratch / "out.partial-").string()));
        write_in(world, partial.path());
        partial.commit();
    }
    CHECK(names(scratch / "") == std::vector<std::string>{"out"});
    CHECK(names(scratch / "out").size() == std::size_t(world.size()));
}

TEST_CASE("without a commit nothing remains") {
    const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
    const test::Scratch scratch{world};
    {
        const PartialDirectory partial{world, scratch / "out", false};
        write_in(world, partial.path());
        mpi::barrier(world);
    }
    mpi::barrier(world);
    CHECK(names(scratch / "").empty());
}

TEST_CASE("what exists is kept unless it may be replaced") {
    const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
    const test::Scratch scratch{world};
    scratch.write("out/old", "old");
    CHECK_THROWS_AS((PartialDirectory{world, scratch / "out", false}), mpi::AgreedError);
    CHECK(names(scratch / "") == std::vector<std::string>{"out"});
    {
        PartialDirectory partial{world, scratch / "out", true};
        write_in(world, partial.path());
        CHECK(names(scratch / "out") == std::vector<std::string>{"old"});
        mpi::barrier(world);
        partial.commit();
    }
    CHECK(names(scratch / "out").size() == std::size_t(world.size()));
    CHECK(names(scratch / "out")[0] == "rank0");
    mpi::barrier(world);
    CHECK(names(scratch / "") == std::vector<std::string>{"out"});
}

TEST_CASE("what appeared meanwhile is not overwritten") {
    const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
    const test::Scratch scratch{world};
    {
        PartialDirectory partial{world, scratch / "out", false};
        scratch.write("out/other", "theirs");
        CHECK_THROWS_AS(partial.commit(), mpi::AgreedError);
    }
    mpi::barrier(world);
    CHECK(names(scratch / "") == std::vector<std::string>{"out"});
    CHECK(read_file(scratch / "out/other") == "theirs");
}

TEST_CASE("names that cannot be made are refused") {
    const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
    const test::Scratch scratch{world};
    CHECK_THROWS_AS((PartialDirectory{world, "/", false}), mpi::AgreedError);
    CHECK_THROWS_AS((PartialDirectory{world, ".", true}), mpi::AgreedError);
    CHECK_THROWS_AS((PartialDirectory{world, scratch / "missing/out", false}), mpi::AgreedError);
}

TEST_CASE("signals that ask for an end are remembered, the first one") {
    const StopSignals signals;
    CHECK(signals.signal() == 0);
    raise(SIGUSR1);
    raise(SIGTERM);
    CHECK(signals.signal() == SIGUSR1);
    CHECK(exit_of(SIGUSR1) == Exit::resumable);
    CHECK(exit_of(SIGTERM) == Exit::resumable);
    CHECK(exit_of(SIGINT) == Exit::interrupted);
}
