// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/execute.hpp"

#include "lib/core/file.hpp"
#include "lib/core/unfinished.hpp"
#include "lib/exec/arrivals.hpp"
#include "lib/exec/draft_files.hpp"
#include "tests/mpi/random_job.hpp"
#include "tests/mpi/scratch.hpp"

#include <doctest/doctest.h>

#include <thread>

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

ExecReport run(const mpi::Comm& comm, const RandomJob& job, const test::Scratch& scratch, const ExecOptions& options) {
    const auto sources = write_source(job, scratch);
    const ExecReport report =
        execute(comm, job.moves, job.source.side(), sources, job.target.side(), job.draft, scratch / "new", options);
    if (comm.rank() == 0) {
        // No reader recognizes any of the files until all are complete (T3).
        for (const auto& entry : std::filesystem::recursive_directory_iterator{scratch / "new"})
            CHECK((entry.is_directory() || entry.path().extension() == ".partial"));
    }
    mpi::barrier(comm);
    DraftFiles{comm, job.draft, scratch / "new"}.rename_to_final();
    return report;
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

ExecReport execute_job(const mpi::Comm& comm, const RandomJob& job, const test::Scratch& scratch,
                       const std::vector<SourceFile>& sources, const ExecOptions& options) {
    return execute(comm, job.moves, job.source.side(), sources, job.target.side(), job.draft, scratch / "new", options);
}

void put(const std::filesystem::path& file, std::uint64_t at, char byte) {
    std::fstream stream{file, std::ios::in | std::ios::out | std::ios::binary};
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(byte);
}

// Damages a file of the output, or a journal, as a crash, a full disk or a person might.
void damage(test::Random& random, const std::filesystem::path& file) {
    const std::uint64_t size = std::filesystem::file_size(file);
    if (random() % 3 == 0)
        std::filesystem::remove(file);
    else
        std::filesystem::resize_file(file, random() % (2 * size + 1));
}

// Damages some files that a run has left, including its journals. Overwrites only payload bytes, because bytes between
// pieces are not checked again.
void damage_some(test::Random& random, const RandomJob& job, const test::Scratch& scratch) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator{scratch / "new"})
        if (entry.is_regular_file()) files.push_back(entry.path());
    std::ranges::sort(files);
    for (const auto& file : files) {
        if (random() % 6 == 0) damage(random, file);
    }
    for (const auto& region : job.target.regions) {
        const auto file = scratch / "new" / unfinished_name(job.draft.files[region.file].path);
        if (random() % 3 == 0 && region.length > 0 && std::filesystem::exists(file))
            put(file, region.offset + random() % region.length, static_cast<char>(random()));
    }
}

}  // namespace

TEST_CASE("files equal the result of moving one element at a time") {
    const mpi::Comm world = mpi::Comm::world();
    for (std::uint64_t seed = 0; seed < 16; ++seed) {
        CAPTURE(seed);
        test::Random random{seed};
        const RandomJob job = test::random_job(random, seed % 4 == 0);
        const test::Scratch scratch{world};
        ExecOptions options;
        options.memory = std::uint64_t{seed % 8 == 0 ? 8u : 1u} << 20;
        options.threads = 1 + int(seed % 3);
        const ExecReport report = run(world, job, scratch, options);
        CHECK(difference(job, scratch) == "");
        std::uint64_t bytes = 0;
        for (const Piece& piece : job.target.pieces)
            bytes += std::uint64_t(volume(piece.box) * itemsize(job.target.tensors[piece.tensor].dtype));
        CHECK(report.bytes_written == bytes);
    }
}

TEST_CASE("source bytes that arrive during a run are read once they have arrived") {
    const mpi::Comm alone;
    for (std::uint64_t seed = 20; seed < 28; ++seed) {
        CAPTURE(seed);
        test::Random random{seed};
        const RandomJob job = test::random_job(random, true);
        const test::Scratch scratch{alone};
        const auto sources = write_source(job, scratch);
        const std::string& content = job.content[0];
        const std::string empty(content.size(), '\x5a');
        scratch.write(job.source.files[0].path, empty);
        Arrivals arrivals{0, sources[0].path, false};
        std::jthread filling{[&] {
            std::vector<std::size_t> begins;
            for (std::size_t begin = 0; begin < content.size(); begin += 1 + content.size() / 50)
                begins.push_back(begin);
            std::ranges::shuffle(begins, random);
            std::fstream stream{sources[0].path, std::ios::in | std::ios::out | std::ios::binary};
            for (std::size_t begin : begins) {
                const std::string part = content.substr(begin, 1 + content.size() / 50);
                stream.seekp(static_cast<std::streamoff>(begin)).write(part.data(), std::ssize(part)).flush();
                arrivals.add({begin, begin + part.size()});
                std::this_thread::sleep_for(std::chrono::microseconds{200});
            }
        }};
        ExecOptions options;
        options.memory = std::uint64_t{1} << 20;
        options.arrivals = &arrivals;
        execute_job(alone, job, scratch, sources, options);
        DraftFiles{alone, job.draft, scratch / "new"}.rename_to_final();
        CHECK(difference(job, scratch) == "");
    }
}

TEST_CASE("a run ends if bytes that it needs do not arrive") {
    const mpi::Comm alone;
    test::Random random{1};
    const RandomJob job = test::random_job(random, false);
    const test::Scratch scratch{alone};
    const auto sources = write_source(job, scratch);
    Arrivals arrivals{job.source.pieces[job.moves[0].source].file, sources[0].path, false};
    arrivals.stop();
    ExecOptions options;
    options.arrivals = &arrivals;
    CHECK_THROWS_AS(execute_job(alone, job, scratch, sources, options), Error);
}

TEST_CASE("a source file that ends too soon is named with its tensor, on all ranks") {
    const mpi::Comm world = mpi::Comm::world();
    test::Random random{3};
    RandomJob job = test::random_job(random, false);
    const Piece& piece = job.source.pieces[job.moves[0].source];
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

TEST_CASE("a run that is asked to stop reports that it can be resumed") {
    const mpi::Comm world = mpi::Comm::world();
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
    const mpi::Comm world = mpi::Comm::world();
    test::Random random{5};
    RandomJob job = test::random_job(random, false);
    const test::Scratch scratch{world};
    ExecOptions options;
    options.memory = 4096;  // too little for any tile
    CHECK_THROWS_AS(run(world, job, scratch, options), mpi::AgreedError);
}

TEST_CASE("a finite value that a cast makes infinite is an error that names file, tensor and value") {
    const mpi::Comm world = mpi::Comm::world();
    const test::Scratch scratch{world};
    RandomJob job;
    for (auto* side : {&job.source, &job.target})
        side->tensors = {{"small", DType::f32, {4}}, {"big", DType::f32, {2, 3}}};
    std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 70000, 8, -1e9f};
    for (auto* side : {&job.source, &job.target}) {
        for (std::uint32_t t = 0; t < 2; ++t) {
            Tensor& tensor = side->tensors[t];
            if (side == &job.target) tensor.dtype = DType::f16;
            const std::uint64_t offset = t == 0 ? 0 : 4u * std::uint64_t(itemsize(tensor.dtype));
            side->pieces.push_back({t, 0, offset, whole(tensor.shape), row_major(tensor.shape), -1});
        }
        side->files = {{side == &job.source ? "in" : "out", side == &job.source ? 40u : 20u}};
    }
    job.content = {std::string(reinterpret_cast<const char*>(values.data()), 40)};
    for (std::uint32_t t = 0; t < 2; ++t) job.moves.push_back({t, t, whole(job.source.tensors[t].shape)});
    job.draft.files = job.target.files;
    job.draft.tensors = job.target.tensors;
    job.draft.pieces = job.target.pieces;
    std::string message;
    try {
        run(world, job, scratch, {});
    } catch (const mpi::AgreedError& error) {
        message = error.what();
    }
    CHECK(message.find("in: tensor 'big': 70000 at [1, 0] does not fit f16") != std::string::npos);
    CHECK(message.find("(and 1 more)") != std::string::npos);
}

TEST_CASE("an unsupported cast is refused with the tensor's name") {
    const mpi::Comm world = mpi::Comm::world();
    test::Random random{6};
    RandomJob job = test::random_job(random, false);
    job.source.tensors[0].dtype = DType::i16;
    job.target.tensors[0].dtype = DType::bf16;
    const test::Scratch scratch{world};
    const std::string expected = fmt::format("tensor '{}': cannot cast i16 to bf16", job.source.tensors[0].name);
    CHECK_THROWS_WITH_AS(run(world, job, scratch, {}), expected.c_str(), mpi::AgreedError);
}

TEST_CASE("whatever an earlier run left, the files are those of an undisturbed run") {
    const mpi::Comm world = mpi::Comm::world();
    const mpi::Comm alone;
    for (std::uint64_t seed = 0; seed < 24; ++seed) {
        CAPTURE(seed);
        test::Random random{seed};
        const RandomJob job = test::random_job(random, seed % 4 == 0);
        const test::Scratch scratch{world};
        const auto sources = write_source(job, scratch);
        const auto options = [&](int attempt) {
            ExecOptions limits;
            limits.memory = (1 + random() % 8) << 20;
            limits.threads = static_cast<int>(1 + random() % 3);
            limits.journal = JournalPlace{scratch / "new", 7, attempt};
            return limits;
        };
        // A run can be continued by more or fewer ranks.
        const bool first_alone = random() % 3 == 0, second_alone = random() % 3 == 0;
        const ExecOptions first = options(0), second = options(1);
        if (!first_alone || world.rank() == 0) execute_job(first_alone ? alone : world, job, scratch, sources, first);
        mpi::barrier(world);
        if (seed % 3 != 0 && world.rank() == 0) damage_some(random, job, scratch);
        mpi::barrier(world);
        if (!second_alone || world.rank() == 0) {
            const mpi::Comm& comm = second_alone ? alone : world;
            const ExecReport report = execute_job(comm, job, scratch, sources, second);
            if (seed % 3 == 0) CHECK(report.bytes_written == 0);
            mpi::barrier(comm);
            DraftFiles{comm, job.draft, scratch / "new"}.rename_to_final();
        }
        mpi::barrier(world);
        CHECK(difference(job, scratch) == "");
    }
}
