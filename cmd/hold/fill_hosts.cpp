// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/fill_hosts.hpp"

#include "cmd/hold/draft_owners.hpp"
#include "cmd/hold/gpu_fill.hpp"
#include "cmd/output/progress.hpp"
#include "formats/source.hpp"
#include "lib/core/crc.hpp"
#include "lib/core/error.hpp"
#include "lib/core/mapped_file.hpp"
#include "lib/exec/device/run_rounds.hpp"
#include "lib/exec/execute.hpp"

#include <fcntl.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

const Catalogue& catalogue_of(const HostsPlan& plan) { return plan.hold.job.opened.source.checkpoint.catalogue; }

/// The path of a source file of this host.
fs::path own_path(const FillRun& run, const HostsPlan& plan, std::uint32_t file) {
    return run.folder / catalogue_of(plan).files[file].path;
}

/// The source files, with their paths on this host.
std::vector<SourceFile> own_paths(const FillRun& run, const HostsPlan& plan) {
    std::vector<SourceFile> sources = formats::paths(catalogue_of(plan));
    for (std::uint32_t file = 0; file < sources.size(); ++file) sources[file].path = own_path(run, plan, file);
    return sources;
}

/// Copies the elements that this host already holds, and writes all data outside tensors.
void copy_own(const FillRun& run, const HostsPlan& plan, const HostShare& share, const std::vector<Fd>& files) {
    if (files.empty()) return;  // no rank runs on this host
    const formats::Conversion& conversion = plan.hold.job.conversion;
    const std::vector<SourceFile> sources = own_paths(run, plan);
    std::optional<Progress> progress;
    ExecOptions exec;
    exec.threads = static_cast<int>(run.options.threads.value_or(exec.threads));
    exec.memory_files = &files;
    exec.cancelled = run.cancelled;
    exec.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view slowest) {
        if (!run.out.is_printing()) return;
        if (!progress) progress.emplace(run.out, "hold", total);
        progress->update(done, slowest);
    };
    try {
        execute({}, share.moves, conversion.source_side(), sources, share.target(conversion), share.draft,
                "/proc/self/fd", exec);
    } catch (const mpi::AgreedError& error) {  // no other rank has thrown it
        throw Error{error};
    }
}

/// The files of this host that rounds read and write. Those in host memory are mapped; those of GPUs that cannot send
/// are copied to host memory.
struct MappedHost {
    std::vector<MappedFile> mapped;
    std::vector<std::vector<std::byte>> copied;
    std::vector<const std::byte*> sources;  // by source file; null: not sent from here
    std::vector<std::byte*> targets;        // by file of the draft of all hosts; null: nothing is received

    std::byte* map(const Fd& file, std::uint64_t size, MappedFile::Access access, const fs::path& path) {
        return mapped.emplace_back(file, size, access, path).bytes().data();
    }

    /// Uses read_at(), which also reads GPU memory; a mapping of the file would contain zeros.
    const std::byte* copy(const Fd& file, std::uint64_t size, const fs::path& path) {
        constexpr std::uint64_t at_once = std::uint64_t{16} << 20;
        const std::span<std::byte> bytes{copied.emplace_back(size)};
        for (std::uint64_t done = 0; done < size; done += at_once)
            read_at(file, done, bytes.subspan(done, std::min(at_once, size - done)), path);
        return bytes.data();
    }
};

MappedHost map_files(const FillRun& run, const HostsPlan& plan, const HostShare& share, const std::vector<Fd>& files) {
    const formats::Conversion& conversion = plan.hold.job.conversion;
    MappedHost host;
    host.sources.resize(catalogue_of(plan).files.size());
    host.targets.resize(conversion.draft.files.size());
    for (const std::uint32_t file : plan.files_sent({run.comm.rank(), -1})) {
        const fs::path path = own_path(run, plan, file);
        const Fd opened = open_file(path, O_RDONLY);
        if (const GpuSegment* const segment = run.gpus.segment_of(path))
            host.sources[file] = host.copy(opened, segment->size, path);
        else
            host.sources[file] = host.map(opened, catalogue_of(plan).files[file].size, MappedFile::Access::read, path);
    }
    std::set<std::uint32_t> filled;
    for (const std::uint32_t piece : share.filled) {
        const std::uint32_t file = share.draft.pieces[piece].file;
        if (plan.target_files[share.own[file]].gpu < 0) filled.insert(file);
    }
    for (const std::uint32_t file : filled) {
        const FileEntry& entry = share.draft.files[file];
        host.targets[share.own[file]] = host.map(files[file], entry.size, MappedFile::Access::write, entry.path);
    }
    return host;
}

/// Writes the checksums of the pieces in host memory that got elements from other hosts.
void add_checksums(const HostShare& share, const HostsPlan& plan, const MappedHost& host) {
    for (const Draft::CrcSlot& slot : share.draft.crc_slots) {
        if (!std::ranges::binary_search(share.filled, slot.piece)) continue;
        const Piece& piece = share.draft.pieces[slot.piece];
        if (plan.target_files[share.own[piece.file]].gpu >= 0) continue;
        std::byte* const file = host.targets[share.own[piece.file]];
        const std::uint64_t length = payload_of(plan.hold.job.conversion.draft, piece);
        const std::uint32_t crc = zip_crc(Crc32::of({file + piece.offset, length}), length);
        std::memcpy(file + slot.offset, &crc, sizeof crc);
    }
}

void receive_others(const FillRun& run, const HostsPlan& plan, const MappedHost& host) {
    std::optional<Progress> progress;
    const auto show = [&](std::size_t done, std::size_t total) {
        if (!run.out.is_printing()) return;
        if (!progress) progress.emplace(run.out, "rounds between hosts", total, ProgressUnit::steps);
        progress->update(done);
    };
    const std::vector<SourceFile> files = own_paths(run, plan);
    run_rounds(plan.rounds_job(), plan.rounds, {host.sources, host.targets},
               {run.comm, run.comm.rank(), run.transport, files, run.cancelled, show});
}

}  // namespace

HeldFiles fill_host(const FillRun& run, const HostsPlan& plan, const HostShare& share) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<Fd> files;
    MappedHost host;
    std::optional<GpuFill> gpus;
    mpi::all_or_none(run.comm, [&] {
        files = make_files_in_memory(share.draft);
        copy_own(run, plan, share, files);
        host = map_files(run, plan, share, files);
        gpus.emplace(plan, share, run.gpus, run.comm.rank());
        gpus->add_places(host.sources, host.targets);
        gpus->begin(files);
    });
    receive_others(run, plan, host);
    HeldFiles held;
    mpi::all_or_none(run.comm, [&] {
        add_checksums(share, plan, host);
        gpus->finish(files);
        held = take_files(share.draft, files, plan.ranks[static_cast<std::size_t>(run.comm.rank())]);
        gpus->describe(held.parts);
        gpus.reset();
        if (run.gpus.source() != nullptr) run.gpus.source()->check_still_held();
    });
    held.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return held;
}

}  // namespace tpx::cli
