// SPDX-License-Identifier: Apache-2.0
#include "lib/core/error.hpp"
#include "lib/exec/device/move_copies.hpp"
#include "lib/exec/device/run_rounds.hpp"
#include "lib/exec/wire/mpi_rounds.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <csignal>
#include <random>
#include <string>
#include <vector>

using namespace tpx;

namespace {

/// A state in memory of hosts, equal on all ranks: each tensor is cut along its first axis into one piece for each
/// source file, and into another number of pieces for the target files.
struct SpreadState {
    std::vector<Tensor> was, becomes;
    std::vector<Piece> sources, targets;
    std::vector<Endpoint> source_files, target_files, senders;
    std::vector<std::vector<std::byte>> bytes, expected;
    Moves moves;

    SpreadState(std::uint64_t seed, int hosts, float largest) {
        std::mt19937_64 random{seed};
        for (std::uint64_t k = 1 + random() % 10; k > 0; --k) {
            Shape shape;
            for (std::uint64_t axes = random() % 4; axes > 0; --axes) shape.push_back(Index(random() % 12));
            was.push_back({"t" + std::to_string(k), DType::f32, shape});
            becomes.push_back({"t" + std::to_string(k), random() % 2 ? DType::f32 : DType::f16, shape});
        }
        becomes[0] = {"t0", DType::f16, {64}};
        was[0] = {"t0", DType::f32, {64}};
        for (int file = 0; file < 2 * hosts; ++file) source_files.push_back({file % hosts, -1});
        for (int file = 0; file < hosts + 1; ++file) target_files.push_back({int(random() % unsigned(hosts)), -1});
        bytes = cut(was, source_files.size(), sources);
        expected = cut(becomes, target_files.size(), targets);
        for (auto& file : bytes)
            for (std::size_t at = 0; at + 4 <= file.size(); at += 4) {
                const auto value = std::bit_cast<std::array<std::byte, 4>>(float(random() % 1000) / 1000 * largest);
                std::copy(value.begin(), value.end(), file.begin() + std::ptrdiff_t(at));
            }
        moves = make_moves({was, sources}, {becomes, targets});
        for (const Move& move : moves) senders.push_back(source_files[sources[move.source].file]);
    }

    RoundsJob job() const { return {moves, {was, sources}, {becomes, targets}, senders, target_files}; }

private:
    static std::vector<std::vector<std::byte>> cut(const std::vector<Tensor>& tensors, std::size_t files,
                                                   std::vector<Piece>& pieces) {
        std::vector<std::vector<std::byte>> memory(files);
        for (std::uint32_t k = 0; k < tensors.size(); ++k)
            for (std::size_t file = 0; file < (tensors[k].shape.empty() ? 1 : files); ++file) {
                Box box = whole(tensors[k].shape);
                if (!box.empty())
                    box[0] = {box[0].end * Index(file) / Index(files), box[0].end * Index(file + 1) / Index(files)};
                const std::size_t at = (memory[file].size() + 15) / 16 * 16;
                memory[file].resize(at + std::size_t(volume(box) * itemsize(tensors[k].dtype)));
                pieces.push_back({k, std::uint32_t(file), at, box, row_major(sizes(box)), -1});
            }
        return memory;
    }
};

/// Runs the moves of a state: those within a host at once, the others in rounds. Returns the target files of this rank,
/// and empty ones for the others.
std::vector<std::vector<std::byte>> run_all(const SpreadState& state, const mpi::Comm& world, std::uint64_t staging,
                                            const std::atomic<int>* cancelled = nullptr) {
    std::vector<const std::byte*> from;
    for (std::size_t k = 0; k < state.bytes.size(); ++k)
        from.push_back(state.source_files[k].host == world.rank() ? state.bytes[k].data() : nullptr);
    std::vector<std::vector<std::byte>> results(state.expected.size());
    std::vector<std::byte*> to;
    for (std::size_t k = 0; k < results.size(); ++k) {
        if (state.target_files[k].host == world.rank()) results[k].resize(state.expected[k].size());
        to.push_back(results[k].data());
    }
    const RoundsJob job = state.job();
    std::vector<std::uint32_t> local;
    for (std::uint32_t k = 0; k < state.moves.size(); ++k)
        if (state.source_files[state.sources[state.moves[k].source].file].host == world.rank() &&
            state.target_files[state.targets[state.moves[k].target].file].host == world.rank())
            local.push_back(k);
    copy_moves(state.moves, local, {job.source, from}, {job.target, to}, nullptr, 100,
               [](const CopyBatch& batch) { run_on_host(batch); });
    MpiRounds transport{world};
    const std::vector<SourceFile> files(state.source_files.size(), SourceFile{.path = "source"});
    run_rounds(job, plan_rounds(job, staging), {from, to}, {world, world.rank(), transport, files, cancelled});
    return results;
}

}  // namespace

TEST_CASE("moves between hosts in rounds have the bytes of a plain copy, casts included") {
    const mpi::Comm world = mpi::Comm::world();
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        CAPTURE(seed);
        SpreadState state{seed, world.size(), 100};
        std::vector<const std::byte*> from;
        for (const auto& file : state.bytes) from.push_back(file.data());
        std::vector<std::byte*> to;
        for (auto& file : state.expected) to.push_back(file.data());
        std::vector<std::uint32_t> all;
        for (std::uint32_t k = 0; k < state.moves.size(); ++k) all.push_back(k);
        const RoundsJob job = state.job();
        copy_moves(state.moves, all, {job.source, from}, {job.target, to}, nullptr, 100,
                   [](const CopyBatch& batch) { run_on_host(batch); });
        const auto results = run_all(state, world, seed % 3 == 0 ? 16 : seed % 3 == 1 ? 100 : 100000);
        for (std::size_t k = 0; k < results.size(); ++k)
            if (state.target_files[k].host == world.rank()) REQUIRE(results[k] == state.expected[k]);
    }
}

TEST_CASE("a cast between hosts that makes a finite value infinite fails on all ranks, and names the tensor") {
    const mpi::Comm world = mpi::Comm::world();
    if (world.size() == 1) return;  // nothing is between hosts
    bool fails = false;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) try {
            run_all(SpreadState{seed, world.size(), 1e9F}, world, 4000);
        } catch (const mpi::AgreedError& error) {
            fails = true;
            const std::string message = error.what();
            CHECK(message.find("source: tensor 't") != message.npos);
            CHECK(message.find(" does not fit f16, whose largest value is 65504") != message.npos);
        }
    CHECK(fails);
}

TEST_CASE("a rank that is asked to stop between rounds stops all") {
    const mpi::Comm world = mpi::Comm::world();
    if (world.size() == 1) return;
    const std::atomic<int> signal = world.rank() == world.size() - 1 ? SIGTERM : 0;
    CHECK_THROWS_AS(run_all(SpreadState{1, world.size(), 1}, world, 16, &signal), mpi::AgreedError);
}
