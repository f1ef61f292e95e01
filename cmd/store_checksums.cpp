// SPDX-License-Identifier: Apache-2.0
#include "cmd/store_checksums.hpp"

#include "lib/core/error.hpp"

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

/// The checksums of the files of this host that this rank computes, by number in the manifest: "NUMBER CRC" each.
std::string checksums(const HostRun& run, const std::filesystem::path& folder, const FileCrcs* written,
                      const formats::Manifest& manifest) {
    const std::vector<std::vector<Interval>> pieces = bytes_of_pieces(run);
    std::string list;
    std::uint32_t own = 0;  // number in the draft of the host
    for (std::size_t f = 0; f < manifest.files.size(); ++f) {
        if (!run.job.files_of_hosts[run.team.host][f]) continue;
        const std::uint32_t file = own++;
        if (static_cast<int>(file) % run.host.size() != run.host.rank()) continue;
        const formats::ManifestFile& entry = manifest.files[f];
        const std::filesystem::path path = folder / entry.path;
        const bool is_known = written != nullptr && !overlap(pieces[file]);
        list += fmt::format("{} {}\n", f,
                            is_known ? formats::crc_of_file(path, entry.size, pieces[file], written->value(file))
                                     : formats::crc_of_file(path, entry.size));
    }
    return list;
}

}  // namespace

void add_checksums(const HostRun& run, const std::filesystem::path& folder, FileCrcs* written,
                   formats::Manifest& manifest) {
    std::string mine;
    together(run.all, [&] {
        if (written != nullptr) written->combine(run.host);
    });
    mpi::all_or_none(run.all, [&] { mine = checksums(run, folder, written, manifest); });
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
