// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/hold_state.hpp"

#include "cmd/cli/options.hpp"
#include "cmd/hold/direct_moves.hpp"
#include "cmd/jobs/check_copies.hpp"
#include "cmd/jobs/open_checkpoint.hpp"
#include "cmd/output/output.hpp"
#include "cmd/output/progress.hpp"
#include "formats/dcp/driver.hpp"
#include "formats/files/store/manifest.hpp"
#include "lib/core/error.hpp"
#include "lib/core/in_path.hpp"
#include "lib/core/memory_file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/execute.hpp"
#include "lib/exec/open_files.hpp"

#include <algorithm>
#include <optional>

namespace tpx::cli {
namespace {

std::uint64_t pages(std::uint64_t bytes) {
    constexpr std::uint64_t page = 4096;
    return (bytes + page - 1) / page * page;
}

/// An identifier of the save in `folder`: that of the change if the folder is the state of a managed store, otherwise
/// the one that the writer of the checkpoint chose. Empty if unknown.
std::string save_of(const std::filesystem::path& folder, const formats::Checkpoint& checkpoint) {
    const std::filesystem::path manifest = folder / formats::manifest_name;
    try {
        if (path_is_file(manifest)) {
            const formats::Manifest state = formats::parse_manifest(read_file(manifest), manifest);
            return fmt::format("{} {}", state_name(state), state.change);
        }
    } catch (const Error&) {  // a file of somebody else
    }
    return checkpoint.save_id;
}

}  // namespace

std::uint64_t bytes_in_memory(const Draft& draft) {
    std::uint64_t bytes = 0;
    for (const FileEntry& file : draft.files) bytes += pages(file.size);
    return bytes;
}

std::string segment_name(int rank) { return fmt::format("rank-{:05}.bin", rank); }
std::string document_name(int rank) { return fmt::format("rank-{:05}.json", rank); }

HoldJob prepare_hold(const HoldOptions& options) {
    ReshardOptions wanted;
    static_cast<ReadOptions&>(wanted) = options;
    wanted.allows_missing_files = !options.ranks.empty();
    wanted.checkpoint = options.checkpoint;
    wanted.to = options.to;
    wanted.format = formats::dcp_driver.name;
    wanted.dialect = options.dialect.empty() ? "keep" : options.dialect;
    wanted.dtype = options.dtype;
    wanted.drop = options.drop;
    wanted.masters = options.masters;
    wanted.held = options.ranks.empty() ? "all" : options.ranks;
    HoldJob hold{.job = prepare_reshard(wanted)};
    hold.bytes = bytes_in_memory(hold.job.conversion.draft);
    const AvailableMemory room = available_memory();
    hold.room = room.bytes;
    hold.limit = room.limit;
    return hold;
}

void check_fits(const HoldJob& hold, const std::string& checkpoint) {
    const std::uint64_t buffers = ExecOptions{}.memory;
    const std::uint64_t bytes = hold.bytes - hold.saved;
    if (bytes + buffers > hold.room)
        throw failure(
            "{}: {} of state and {} of buffers do not fit: {} of memory are free ({}); use --ranks or --drop optimizer",
            checkpoint, format_size(bytes), format_size(buffers), format_size(hold.room), hold.limit);
}

std::vector<Fd> make_files_in_memory(const Draft& draft) {
    allowed_open_files(1);  // raises the limit
    std::vector<Fd> files;
    for (const FileEntry& file : draft.files)
        files.push_back(make_memory_file("tpx-" + file.path.filename().string(), file.size));
    return files;
}

HeldFiles take_files(const Draft& draft, std::vector<Fd>& files, const std::vector<int>& ranks) {
    const auto take = [&](const std::string& name) {
        const auto found = std::ranges::find(draft.files, std::filesystem::path{name}, &FileEntry::path);
        return found == draft.files.end() ? Fd{}
                                          : std::move(files[static_cast<std::size_t>(found - draft.files.begin())]);
    };
    HeldFiles held;
    for (const int rank : ranks) held.parts.push_back(make_part(take(document_name(rank)), take(segment_name(rank))));
    held.config = take("config.json");  // the only other file that is kept
    return held;
}

HeldFiles read_into_memory(const HoldJob& hold, const HoldOptions& options, const ReadRecord& record,
                           const StopSignals& signals, const DirectMoves* direct, Output& out) {
    const formats::Conversion& conversion = hold.job.conversion;
    const Draft& draft = conversion.draft;
    std::vector<Fd> files = make_files_in_memory(draft);
    std::optional<Progress> progress;
    ExecOptions exec;
    exec.threads = static_cast<int>(options.threads.value_or(exec.threads));
    exec.memory_files = &files;
    exec.cancelled = &signals.signal();
    exec.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view slowest) {
        if (!progress) progress.emplace(out, "hold", total);
        progress->update(done, slowest);
    };
    double seconds = 0;
    in_path(options.checkpoint, [&] {
        const mpi::Comm alone;
        const Catalogue& source = hold.job.opened.source.checkpoint.catalogue;
        check_copies(alone, conversion, source, {});
        const Moves& moves = direct != nullptr ? direct->host_moves() : hold.job.moves;
        const Side target = direct != nullptr ? direct->host_target() : conversion.target_side();
        seconds = execute(alone, moves, conversion.source_side(), formats::paths(source), target, draft,
                          "/proc/self/fd", exec)
                      .seconds;
    });
    HeldFiles held = take_files(draft, files, *hold.job.target.held);
    held.save = save_of(path_without_links(options.checkpoint), hold.job.opened.source.checkpoint);
    for (const auto& [path, file] : record.files()) record.check(path);
    held.seconds = seconds;
    return held;
}

}  // namespace tpx::cli
