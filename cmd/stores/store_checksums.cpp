// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/store_checksums.hpp"

#include "lib/core/error.hpp"
#include "lib/core/parallel_for.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace tpx::cli {
namespace {

/// The bytes that pieces fill, by file of the host's draft: ascending, and joined where they touch.
std::vector<std::vector<Interval>> bytes_of_pieces(const HostRun& run) {
    std::vector<std::vector<Interval>> ranges(run.part.draft.files.size());
    for (const Piece& piece : run.part.targets) {
        const Index bytes = volume(piece.box) * itemsize(run.job.conversion.target_tensors[piece.tensor].dtype);
        const auto begin = static_cast<Index>(piece.offset);
        if (bytes > 0) ranges[piece.file].push_back({begin, begin + bytes});
    }
    for (std::vector<Interval>& own : ranges) {
        std::ranges::sort(own);
        std::vector<Interval> joined;
        for (const Interval range : own) {
            if (!joined.empty() && joined.back().end == range.begin)
                joined.back().end = range.end;
            else
                joined.push_back(range);
        }
        own = std::move(joined);
    }
    return ranges;
}

/// Whether some bytes belong to several pieces: tensors that share a storage.
bool overlap(const std::vector<Interval>& ranges) {
    return std::ranges::adjacent_find(ranges, [](Interval a, Interval b) { return a.end > b.begin; }) != ranges.end();
}

/// A file of this host: its number in the manifest, and in the draft of the host.
struct OwnFile {
    std::size_t listed = 0;
    std::uint32_t drafted = 0;
};

/// The files of this host of which this rank computes the checksums.
std::vector<OwnFile> files_of_rank(const HostRun& run) {
    std::vector<OwnFile> files;
    std::uint32_t next = 0;
    const std::vector<bool>& here = run.job.files_of_hosts[run.team.host];
    for (std::size_t f = 0; f < here.size(); ++f) {
        if (!here[f]) continue;
        const std::uint32_t file = next++;
        if (static_cast<int>(file) % run.host.size() == run.host.rank()) files.push_back({f, file});
    }
    return files;
}

/// The checksums of the files of this rank: "NUMBER CRC" each, with the number in the manifest.
std::string checksums(const HostRun& run, const std::filesystem::path& folder, const FileCrcs* written, int threads,
                      const formats::Manifest& manifest) {
    const std::vector<std::vector<Interval>> pieces = bytes_of_pieces(run);
    const std::vector<OwnFile> files = files_of_rank(run);
    std::vector<std::uint64_t> crcs(files.size());
    parallel_for(files.size(), static_cast<std::size_t>(threads), [&](std::size_t k) {
        const formats::ManifestFile& entry = manifest.files[files[k].listed];
        const std::vector<Interval>& known = pieces[files[k].drafted];
        const std::filesystem::path path = folder / entry.path;
        crcs[k] = written != nullptr && !overlap(known)
                      ? formats::crc_of_file(path, entry.size, known, written->value(files[k].drafted))
                      : formats::crc_of_file(path, entry.size);
    });
    std::string list;
    for (std::size_t k = 0; k < files.size(); ++k) list += fmt::format("{} {}\n", files[k].listed, crcs[k]);
    return list;
}

}  // namespace

void add_checksums(const HostRun& run, const std::filesystem::path& folder, FileCrcs* written, int threads,
                   formats::Manifest& manifest) {
    std::string mine;
    run_together(run.all, [&] {
        if (written != nullptr) written->combine(run.host);
    });
    mpi::all_or_none(run.all, [&] { mine = checksums(run, folder, written, threads, manifest); });
    std::vector<std::optional<std::uint64_t>> known(manifest.files.size());
    for (const std::string& list : mpi::all_gather(run.all, mine)) {
        for (std::size_t at = 0; at < list.size(); at = list.find('\n', at) + 1) {
            const std::size_t f = std::stoull(list.substr(at));
            const std::uint64_t crc = std::stoull(list.substr(list.find(' ', at) + 1));
            if (known[f].value_or(crc) != crc)
                throw mpi::AgreedError{
                    failure("{}: was written with different contents on two hosts", manifest.files[f].path.string())};
            manifest.files[f].crc = *(known[f] = crc);
        }
    }
}

}  // namespace tpx::cli
