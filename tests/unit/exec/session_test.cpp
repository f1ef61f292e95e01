// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/session.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

using namespace tpx;

namespace {

struct Outcome {
    Exit exit;
    std::string message;
};

template <class Body>
Outcome outcome(Body&& body) {
    Outcome outcome{Exit::success, ""};
    outcome.exit = mpi::with_ranks(body, [&](Exit, std::string_view message) { outcome.message = message; });
    return outcome;
}

}  // namespace

// These tests are not started by mpirun.
TEST_CASE("a process that no launcher started is one rank, without MPI") {
    const auto done = outcome([](const mpi::Comm& comm) {
        CHECK(comm.rank() == 0);
        CHECK(comm.size() == 1);
        std::uint64_t value = 7;
        mpi::all_sum(comm, {&value, 1});
        std::string bytes = "bytes";
        mpi::broadcast(comm, bytes);
        mpi::barrier(comm);
        CHECK(value == 7);
        CHECK(bytes == "bytes");
        CHECK_FALSE(mpi::is_running());
        return Exit::no;
    });
    CHECK(done.exit == Exit::no);
    CHECK(done.message.empty());
}

TEST_CASE("an error ends the session with one message and its exit status") {
    const auto alone = outcome([](const mpi::Comm&) -> Exit { throw Error{Exit::usage, "no such layout"}; });
    CHECK(alone.exit == Exit::usage);
    CHECK(alone.message == "no such layout");

    const auto agreed = outcome([](const mpi::Comm& comm) {
        mpi::all_or_none(comm, [] { throw failure("disk full"); });
        return Exit::success;
    });
    CHECK(agreed.exit == Exit::failure);
    CHECK(agreed.message == "disk full");

    const auto bug = outcome([](const mpi::Comm&) -> Exit { throw std::out_of_range{"index"}; });
    CHECK(bug.exit == Exit::failure);
    CHECK(bug.message == "internal error: index; please report this");
}
