// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/execute.hpp"

#include "lib/exec/crew.hpp"
#include "lib/exec/draft_files.hpp"
#include "lib/exec/file_writer.hpp"
#include "lib/exec/kernel.hpp"
#include "lib/exec/overflows.hpp"
#include "lib/exec/payload_crcs.hpp"
#include "lib/exec/shares.hpp"
#include "lib/exec/source_files.hpp"
#include "lib/exec/tiles.hpp"
#include "lib/exec/window.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>

namespace tpx {
namespace {

using Clock = std::chrono::steady_clock;

// Larger tiles make no faster disk, and smaller ones cut columns of wide matrices into short writes.
constexpr std::uint64_t preferred_tile = std::uint64_t{16} << 20;

enum Stage { create, reading, copying, checking, writing, syncing, stages };
using Nanoseconds = std::array<std::uint64_t, stages>;

/// Adds the time until its end to a stage.
class Timed {
public:
    explicit Timed(std::uint64_t& sum) : sum_{sum} {}
    ~Timed() { sum_ += static_cast<std::uint64_t>(std::chrono::nanoseconds{Clock::now() - begin_}.count()); }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

private:
    std::uint64_t& sum_;
    Clock::time_point begin_ = Clock::now();
};

struct Job {
    const Moves& moves;
    Side source;
    Side target;
    std::span<const SourceFile> source_files;
    std::span<const std::filesystem::path> target_files;
    PayloadCrcs& crcs;
};

// What one thread of a rank has to itself.
class Mover {
public:
    Mover(const Job& job, std::uint64_t memory)
        : job_{job}, arena_{memory}, sources_{job.source_files}, targets_{job.target_files} {}

    void carry(Tile& tile) {
        arena_.clear();
        Window sources{tile.sources};
        Window targets{tile.targets};
        sources.place_for_reading(arena_);
        targets.place_for_writing(arena_);
        {
            const Timed timed{spent[reading]};
            bytes_read += sources.read(sources_);
        }
        {
            const Timed timed{spent[copying]};
            for (const TilePart& part : tile.parts) copy(part, tile, sources, targets);
        }
        targets.write([this](auto file, auto offset, auto bytes) { write(file, offset, bytes); });
        bytes_done += tile.bytes;
    }

    void close() { targets_.close(); }
    const Overflows& overflows() const { return overflows_; }
    bool has_written(std::size_t file) const { return targets_.has_written(file); }

    Nanoseconds spent{};
    std::uint64_t bytes_read = 0;
    std::atomic<std::uint64_t> bytes_done{0};

private:
    void copy(const TilePart& part, const Tile& tile, const Window& sources, const Window& targets) {
        const Move& move = job_.moves[part.move];
        const Image& from = tile.sources[part.source];
        const Image& to = tile.targets[part.target];
        const Piece& piece = job_.source.pieces[move.source];
        const std::byte* values = sources.at(part.source) + place_in(from, part.box);
        const DType was = job_.source.tensors[piece.tensor].dtype;
        const DType is = job_.target.tensors[job_.target.pieces[move.target].tensor].dtype;
        if (cast_elements(sizes(part.box), values, from.strides(), was,
                          targets.at(part.target) + place_in(to, part.box), to.strides(), is))
            overflows_.add(piece, part.box, values, from.strides(), was, is);
    }

    void write(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
        {
            const Timed timed{spent[checking]};
            job_.crcs.add(file, offset, bytes);
        }
        const Timed timed{spent[writing]};
        targets_.write(file, offset, bytes);
    }

    const Job& job_;
    Arena arena_;
    SourceFiles sources_;
    FileWriter targets_;
    Overflows overflows_;
};

void check_casts(const Side& source, const Side& target) {
    for (std::size_t k = 0; k < target.tensors.size(); ++k) {
        const DType from = source.tensors[k].dtype, to = target.tensors[k].dtype;
        if (!can_cast(from, to))
            throw failure("tensor '{}': cannot cast {} to {}", target.tensors[k].name, name(from), name(to));
    }
}

// Rank by rank, a share of the files: each source piece that is needed must lie within its file.
void check_sources(const mpi::Comm& comm, const Moves& moves, const Side& source, std::span<const SourceFile> files) {
    std::vector<bool> needed(source.pieces.size());
    for (const Move& move : moves) needed[move.source] = true;
    check_lengths(comm, source, needed, files);
}

Report report_of(const mpi::Comm& comm, std::span<const std::unique_ptr<Mover>> movers, const Nanoseconds& own) {
    std::array<std::uint64_t, stages + 2> sums{};
    std::ranges::copy(own, sums.begin());
    for (const auto& mover : movers) {
        for (std::size_t k = 0; k < stages; ++k) sums[k] += mover->spent[k];
        sums[stages] += mover->bytes_read;
        sums[stages + 1] += mover->bytes_done;
    }
    mpi::all_sum(comm, sums);
    const auto seconds = [&](Stage stage) { return static_cast<double>(sums[stage]) * 1e-9; };
    Report report;
    report.bytes_read = sums[stages];
    report.bytes_written = sums[stages + 1];
    report.stages = {seconds(create),   seconds(reading), seconds(copying),
                     seconds(checking), seconds(writing), seconds(syncing)};
    return report;
}

using Movers = std::vector<std::unique_ptr<Mover>>;

std::uint64_t bytes_done(const Movers& movers) {
    std::uint64_t done = 0;
    for (const auto& mover : movers) done += mover->bytes_done;
    return done;
}

void create_files(const mpi::Comm& comm, const DraftFiles& files, std::uint64_t& spent) {
    const Timed timed{spent};
    mpi::all_or_none(comm, [&] { files.create(); });
    mpi::all_or_none(comm, [&] {
        std::vector<std::byte> buffer(std::size_t{1} << 20);
        files.write_known(buffer);
    });
}

void complete_files(const mpi::Comm& comm, const DraftFiles& files, PayloadCrcs& crcs, const Movers& movers,
                    std::uint64_t& spent) {
    const Timed timed{spent};
    crcs.combine(comm);
    mpi::all_or_none(comm, [&] {
        for (const auto& mover : movers) mover->close();
        files.write_slots(crcs);
        std::vector<bool> written(files.paths().size());
        for (std::size_t file = 0; file < written.size(); ++file) {
            for (const auto& mover : movers) written[file] = written[file] || mover->has_written(file);
        }
        files.sync(written);
    });
}

}  // namespace

Report execute(const mpi::Comm& comm, const Moves& moves, const Side& source, std::span<const SourceFile> source_files,
               const Side& target, const Draft& draft, const std::filesystem::path& directory,
               const ExecOptions& options) {
    const auto begin = Clock::now();
    const DraftFiles files{comm, draft, directory};
    PayloadCrcs crcs{draft};
    Nanoseconds own{};
    Movers movers;
    const Job job{moves, source, target, source_files, files.paths(), crcs};
    Fitted fitted;
    mpi::all_or_none(comm, [&] {
        check_casts(source, target);
        check_sources(comm, moves, source, source_files);
        fitted = fit(options, source_files);
        for (int k = 0; k < fitted.options.threads; ++k) movers.push_back(std::make_unique<Mover>(job, fitted.memory));
    });
    create_files(comm, files, own[create]);
    const Tiler tiler{moves, source, target, {fitted.memory, preferred_tile, decoded(source_files)}};
    const auto carry = [&](int thread, Tile& tile) { movers[static_cast<std::size_t>(thread)]->carry(tile); };
    deal(comm, fitted.options, tiler, std::min(fitted.memory, preferred_tile), carry,
         [&] { return bytes_done(movers); });
    Overflows overflows;
    for (const auto& mover : movers) overflows.join(mover->overflows());
    overflows.refuse(comm, source, source_files);
    complete_files(comm, files, crcs, movers, own[syncing]);
    Report report = report_of(comm, movers, own);
    report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return report;
}

}  // namespace tpx
