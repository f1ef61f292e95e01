// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/execute.hpp"

#include "lib/core/file.hpp"
#include "tests/mpi/random_job.hpp"
#include "tests/mpi/scratch.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using test::RandomJob;

namespace {

std::vector<SourceFile> write_source(const RandomJob& job, const test::Scratch& scratch) {
    std::vector<SourceFile> files;
    for (std::size_t k = 0; k < job.source.files.size(); ++k) {
        scratch.write(job.source.files[k].path, job.content[k]);
        files.push_back({scratch / job.source.files[k].path});
    }
    return files;
}

Report run(const mpi::Comm& comm, const RandomJob& job, const test::Scratch& scratch, const ExecOptions& options) {
    const auto sources = write_source(job, scratch);
    return execute(comm, job.plan, job.source.side(), sources, job.target.side(), job.draft, scratch / "new", options);
}

// Returns what differs, or nothing.
std::string difference(const RandomJob& job, const test::Scratch& scratch) {
    const auto expected = test::expected_files(job);
    for (std::size_t k = 0; k < expected.size(); ++k) {
        const std::string content = read_file(scratch / "new" / job.draft.files[k].path);
        if (content.size() != expected[k].size()) return "size of " + job.draft.files[k].path.string();
        const auto [mine, theirs] = std::ranges::mismatch(content, expected[k]);
        if (mine != content.end())
            return fmt::format("{} at byte {}", job.draft.files[k].path.string(), mine - content.begin());
    }
    return "";
}

}  // namespace

TEST_CASE("files hold what moving one element at a time gives") {
    const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
    for (std::uint64_t seed = 0; seed < 16; ++seed) {
        CAPTURE(seed);
        test::Random random{seed};
        const RandomJob job = test::random_job(random, seed % 4 == 0);
        const test::Scratch scratch{world};
        ExecOptions options;
        options.memory = std::uint64_t{seed % 8 == 0 ? 8u : 1u} << 20;
        options.threads = 1 + int(seed % 3);
        const Report report = run(world, job, scratch, options);
        CHECK(difference(job, scratch) == "");
        std::uint64_t bytes = 0;
        for (const Piece& piece : job.target.pieces)
            bytes += std::uint64_t(volume(piece.box) * itemsize(job.target.tensors[piece.tensor].dtype));
        CHECK(report.bytes_written == bytes);
    }
}

TEST_CASE("a source file that ends too soon is named with its tensor, on all ranks") {
    const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
    test::Random random{3};
    RandomJob job = test::random_job(random, false);
    const Piece& piece = job.source.pieces[job.plan.moves[0].source];
    job.content[piece.file].resize(piece.offset);
    const test::Scratch scratch{world};
    std::string message;
    try {
        run(world, job, scratch, {});
    } catch (const mpi::AgreedError& error) {
        message = error.what();
    }
    CHECK(message.find(job.source.files[piece.file].path.string() + ": tensor '") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(scratch / "new"));
}

TEST_CASE("a run that is asked to stop says that it can be resumed") {
    const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
    test::Random random{4};
    const RandomJob job = test::random_job(random, false);
    const test::Scratch scratch{world};
    std::atomic<int> cancelled{world.rank() == world.size() - 1 ? 15 : 0};
    ExecOptions options;
    options.cancelled = &cancelled;
    try {
        run(world, job, scratch, options);
        FAIL("was not stopped");
    } catch (const mpi::AgreedError& error) {
        CHECK(error.exit() == Exit::resumable);
        CHECK(std::string{error.what()} == "stopped on request");
    }
}

TEST_CASE("an error while bytes move reaches all ranks") {
    const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
    test::Random random{5};
    RandomJob job = test::random_job(random, false);
    const test::Scratch scratch{world};
    ExecOptions options;
    options.memory = 4096;  // too little for anything
    CHECK_THROWS_AS(run(world, job, scratch, options), mpi::AgreedError);
}

TEST_CASE("a cast that there is not is refused with the tensor's name") {
    const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
    test::Random random{6};
    RandomJob job = test::random_job(random, false);
    job.source.tensors[0].dtype = DType::i16;
    job.target.tensors[0].dtype = DType::bf16;
    const test::Scratch scratch{world};
    const std::string expected = fmt::format("tensor '{}': cannot cast i16 to bf16", job.source.tensors[0].name);
    CHECK_THROWS_WITH_AS(run(world, job, scratch, {}), expected.c_str(), mpi::AgreedError);
}
