// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/execute.hpp"

#include "lib/core/fingerprint.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/arrivals.hpp"
#include "lib/exec/copy_elements.hpp"
#include "lib/exec/draft_files.hpp"
#include "lib/exec/mover.hpp"
#include "lib/exec/overflows.hpp"
#include "lib/exec/payload_crcs.hpp"
#include "lib/exec/rate_limiter.hpp"
#include "lib/exec/review.hpp"
#include "lib/exec/share_runner.hpp"
#include "lib/exec/source_files.hpp"
#include "lib/exec/tiles.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <array>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>

namespace tpx {
namespace {

using Clock = std::chrono::steady_clock;

// Larger tiles do not make disks faster, and smaller tiles split columns of wide matrices into short writes.
constexpr std::uint64_t preferred_tile = std::uint64_t{16} << 20;

// With a rate limit, a tile takes an eighth of a second, so that the rate is even and a stop request is noticed soon.
std::uint64_t tile_size(const ExecOptions& options) {
    constexpr std::uint64_t least = std::uint64_t{64} << 10;
    if (options.rate_limiter == nullptr) return preferred_tile;
    return std::clamp(static_cast<std::uint64_t>(options.rate_limiter->rate() / 8), least, preferred_tile);
}

void check_casts(const Side& source, const Side& target) {
    for (std::size_t k = 0; k < target.tensors.size(); ++k) {
        const DType from = source.tensors[k].dtype, to = target.tensors[k].dtype;
        if (!can_cast(from, to))
            throw failure("tensor '{}': cannot cast {} to {}", target.tensors[k].name, name(from), name(to));
    }
}

// Throws unless each needed source piece is within its file.
void check_sources(const mpi::Comm& comm, const Moves& moves, const Side& source, std::span<const SourceFile> files) {
    std::vector<bool> needed(source.pieces.size());
    for (const Move& move : moves) needed[move.source] = true;
    check_lengths(comm, source, needed, files);
}

ExecReport report_of(const mpi::Comm& comm, const Movers& movers, const Timeline& own, bool takes_part) {
    std::array<std::uint64_t, stage_count + 5> sums{};
    for (std::size_t k = 0; k < stage_count; ++k) sums[k] = own.nanoseconds(static_cast<Stage>(k));
    for (const auto& mover : movers) {
        for (std::size_t k = 0; k < stage_count; ++k) sums[k] += mover->timeline.nanoseconds(static_cast<Stage>(k));
        sums[stage_count] += mover->bytes_read;
        sums[stage_count + 1] += mover->bytes_done;
        sums[stage_count + 2] += mover->bytes_shared;
        sums[stage_count + 4] += mover->was_refused_direct() ? 1 : 0;
    }
    sums[stage_count + 3] = takes_part ? movers.size() : 0;
    mpi::all_sum(comm, sums);
    ExecReport report;
    report.threads = static_cast<int>(sums[stage_count + 3]);
    report.bytes_read = sums[stage_count];
    report.bytes_written = sums[stage_count + 1];
    report.bytes_shared = sums[stage_count + 2];
    report.refused_direct = sums[stage_count + 4] > 0;
    // Files are created and synced by one thread of each rank.
    for (std::size_t k = 0; k < stage_count; ++k) {
        const auto stage = static_cast<Stage>(k);
        const int threads = stage == Stage::create || stage == Stage::sync ? comm.size() : report.threads;
        report.stages[k] = static_cast<double>(sums[k]) * 1e-9 / threads;
    }
    return report;
}

// Rank 0 collects the spans of all threads, so each thread keeps at most its share of what rank 0 can hold.
std::size_t most_spans(const mpi::Comm& comm, const ExecOptions& options) {
    constexpr std::size_t of_all = 2'000'000, least = 256, most = 65'536;
    const auto threads = static_cast<std::size_t>(comm.size()) * static_cast<std::size_t>(options.threads);
    return options.trace == nullptr ? 0 : std::clamp(of_all / threads, least, most);
}

/// When destroyed, even after an error, adds what the threads of this rank did to a trace.
class SpanKeeper {
public:
    SpanKeeper(Trace* trace, const MoveJob& job, const Timeline& own, const Movers& movers)
        : trace_{trace}, job_{job}, own_{own}, movers_{movers} {}
    ~SpanKeeper() { add_spans(trace_, job_, own_, movers_); }
    SpanKeeper(const SpanKeeper&) = delete;
    SpanKeeper& operator=(const SpanKeeper&) = delete;

private:
    Trace* trace_;
    const MoveJob& job_;
    const Timeline& own_;
    const Movers& movers_;
};

// Gives `targets` its own descriptors of existing files.
void adopt(const std::vector<Fd>& files, TargetFiles& targets) {
    for (std::uint32_t k = 0; k < files.size(); ++k) {
        Fd own{::fcntl(files[k].get(), F_DUPFD_CLOEXEC, 0)};
        if (!own) throw system_failure(targets.path(k), errno);
        targets.adopt(k, std::move(own));
    }
}

void create_files(const mpi::Comm& comm, const DraftFiles& files, TargetFiles& targets, const ExecOptions& options,
                  bool keep, Timeline& timeline) {
    const ScopedTimer timed{timeline, Stage::create};
    const bool is_new = !options.journal || options.journal->attempt == 0;
    mpi::all_or_none(comm, [&] {
        if (options.memory_files != nullptr) return adopt(*options.memory_files, targets);
        is_new ? files.create(targets) : files.create_or_adopt(keep, targets);
    });
    mpi::all_or_none(comm, [&] {
        std::vector<std::byte> buffer(std::size_t{1} << 20);
        files.write_known(buffer, targets);
    });
}

// What earlier runs recorded, if it belongs to this job; the same on all ranks.
std::optional<Journals> earlier_runs(const mpi::Comm& comm, const ExecOptions& options, std::uint64_t total) {
    if (!options.journal || options.journal->attempt == 0) return std::nullopt;
    Journals found;
    mpi::all_or_none(comm, [&] {
        if (comm.rank() != 0) return;
        const auto journals = read_journals(options.journal->output);
        if (journals && journals->header.request == options.journal->request && journals->header.total == total)
            found = *journals;
    });
    const auto broadcast_bytes = [&](auto* values, std::size_t count) {
        std::string bytes;
        if (comm.rank() == 0) bytes.assign(reinterpret_cast<const char*>(values), count * sizeof *values);
        mpi::broadcast(comm, bytes);
        return bytes;
    };
    const std::string header = broadcast_bytes(&found.header, 1);
    const std::string entries = broadcast_bytes(found.entries.data(), found.entries.size());
    std::memcpy(&found.header, header.data(), header.size());
    found.entries.resize(entries.size() / sizeof(JournalEntry));
    std::memcpy(found.entries.data(), entries.data(), entries.size());
    return found.entries.empty() ? std::nullopt : std::optional{found};
}

// Reading back what earlier runs wrote does not count as progress.
ExecOptions silent(ExecOptions options) {
    options.progress = nullptr;
    return options;
}

// Opens the journal of this rank, and finds what earlier runs have written.
ByteRanges begin_journal(const mpi::Comm& comm, const ExecOptions& options, const std::optional<Journals>& before,
                         const ReviewJob& review, const JournalHeader& header, MoveJob& job) {
    ByteRanges written;
    if (before) written = find_intact_ranges(comm, options, review, before->entries);
    if (!options.journal) return written;
    mpi::all_or_none(comm, [&] { job.journal = std::make_unique<Journal>(*options.journal, comm.rank(), header); });
    return written;
}

/// Whether all ranks run on one machine and have `folder` on the same mounted file system: then a sync by one rank
/// covers what all ranks have written to the file. In containers of one machine, a folder can be on two mounts, each
/// with a page cache of its own. Collective.
bool share_page_cache(const mpi::Comm& comm, const std::filesystem::path& folder) {
    if (comm.size() == 1) return true;
    Fingerprint boot;
    std::string id;
    std::ifstream{"/proc/sys/kernel/random/boot_id"} >> id;
    boot.add(id);
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) id.clear();
    boot.add(id.empty() ? static_cast<std::uint64_t>(comm.rank()) : status.st_dev);
    std::array<std::uint64_t, 2> known{boot.value(), ~boot.value()};
    mpi::all_max(comm, known);
    return known[0] == ~known[1];
}

void complete_files(const mpi::Comm& comm, const DraftFiles& files, TargetFiles& targets, PayloadCrcs& crcs,
                    const Movers& movers, const ExecOptions& options, Timeline& timeline) {
    const ScopedTimer timed{timeline, Stage::sync};
    crcs.combine(comm);  // all ranks have written what they move
    if (options.memory_files != nullptr) {
        files.write_slots(crcs, targets);
        return targets.close();
    }
    const bool one_cache = share_page_cache(comm, files.directory());
    mpi::all_or_none(comm, [&] {
        files.write_slots(crcs, targets);
        std::vector<bool> written(files.paths().size());
        for (std::size_t file = 0; file < written.size(); ++file) {
            for (const auto& mover : movers) written[file] = written[file] || (!one_cache && mover->has_written(file));
        }
        files.sync(written, targets);
    });
}

// The sum may exceed `total`: tiles that an earlier run wrote in part are written completely.
void check_all_written(const ExecReport& report, std::uint64_t total) {
    if (report.bytes_written + report.bytes_kept < total)
        throw mpi::AgreedError{failure("internal error: {} of {} bytes were written; please report this",
                                       report.bytes_written + report.bytes_kept, total)};
}

}  // namespace

ExecReport execute(const mpi::Comm& comm, const Moves& moves, const Side& source,
                   std::span<const SourceFile> source_files, const Side& target, const Draft& draft,
                   const std::filesystem::path& directory, const ExecOptions& options) {
    const auto begin = Clock::now();
    const DraftFiles files{comm, draft, directory};
    // Files in memory have no path with which they could be reopened, so all of them stay open.
    TargetFiles targets{files.paths(),
                        options.memory_files != nullptr ? 2 * files.paths().size() + 1 : allowed_open_files(4)};
    const WrittenCrc written{draft};
    PayloadCrcs crcs{draft};
    const std::size_t spans = most_spans(comm, options);
    Timeline own{spans};
    Movers movers;
    MoveJob job{moves,
                source,
                target,
                source_files,
                files.paths(),
                written,
                crcs,
                options.read_digests,
                options.move_digests,
                options.file_crcs};
    job.rate_limiter = options.rate_limiter;
    job.cancelled = options.cancelled;
    if (options.arrivals != nullptr) job.arriving = options.arrivals->file();
    const SpanKeeper keeper{options.trace, job, own, movers};
    FittedOptions fitted;
    mpi::all_or_none(comm, [&] {
        check_casts(source, target);
        check_sources(comm, moves, source, source_files);
        fitted = fit_decoding_memory(options, source_files);
        for (int k = 0; k < fitted.options.threads; ++k)
            movers.push_back(std::make_unique<Mover>(job, targets, fitted.memory, spans));
    });
    TileLimits limits{fitted.memory, tile_size(options), decoded(source_files)};
    const auto before = earlier_runs(comm, options, Tiler{moves, source, target, limits}.bytes());
    create_files(comm, files, targets, options, before.has_value(), own);
    job.block_size = block_size_of(directory);
    // Tiles that are not larger than those of an earlier run are parts of these.
    if (before) limits.most = std::min(limits.most, before->header.most);
    const Tiler tiler{moves, source, target, limits};
    const JournalHeader header{options.journal ? options.journal->request : 0, tiler.bytes(), limits.most,
                               limits.preferred};
    const ByteRanges kept = begin_journal(comm, silent(fitted.options), before,
                                          {tiler, files.paths(), written, crcs, fitted.memory}, header, job);
    const auto carry = [&](int thread, Tile& tile) {
        movers[static_cast<std::size_t>(thread)]->carry(tile);
        if (options.arrivals != nullptr) options.arrivals->discard(tile);
    };
    if (options.progress)
        fitted.options.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view) {
            options.progress(kept.count() + done, total, slowest_stage(movers));
        };
    process_tiles(comm, fitted.options, tiler, kept, std::min(fitted.memory, limits.preferred),
                  {carry, [&] { return bytes_done(movers); }});
    Overflows overflows;
    for (const auto& mover : movers) overflows.join(mover->overflows());
    overflows.refuse(comm, source, source_files);
    complete_files(comm, files, targets, crcs, movers, options, own);
    ExecReport report = report_of(comm, movers, own, options.takes_part);
    report.bytes_kept = kept.count();
    check_all_written(report, tiler.bytes());
    report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return report;
}

}  // namespace tpx
