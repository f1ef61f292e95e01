// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/checkpoint_digests.hpp"

#include "formats/archive_check.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/in_path.hpp"
#include "lib/exec/digests.hpp"
#include "lib/exec/source_files.hpp"
#include "lib/exec/stop_signals.hpp"

#include <fcntl.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_map>

namespace tpx::cli {
namespace {

/// For each tensor, whether it is a copy that equals its original, so that a checkpoint without it has the same state.
std::vector<bool> equal_copies(const CheckpointDigests& digested) {
    const formats::CanonicalTensors& canonical = digested.canonical;
    std::vector<bool> equal(canonical.tensors.size());
    std::unordered_map<std::string_view, std::size_t> originals;
    for (std::size_t t = 0; t < equal.size(); ++t)
        if (canonical.roles[t] == Role::copy)
            originals.emplace(formats::original_name(canonical.tensors[t].name), equal.size());
    for (std::size_t t = 0; t < equal.size() && !originals.empty(); ++t)
        if (const auto found = originals.find(canonical.tensors[t].name); found != originals.end()) found->second = t;
    for (std::size_t t = 0; t < equal.size(); ++t) {
        if (canonical.roles[t] != Role::copy) continue;
        const std::size_t original = originals.at(formats::original_name(canonical.tensors[t].name));
        equal[t] = original < equal.size() && digested.digests[t] == digested.digests[original] &&
                   canonical.tensors[t].dtype == canonical.tensors[original].dtype &&
                   canonical.tensors[t].shape == canonical.tensors[original].shape;
    }
    return equal;
}

/// A digest over the names, dtypes, shapes and digests of all tensors except extras and copies that equal their
/// originals, in the order of their names.
std::string state_digest(const CheckpointDigests& digested) {
    std::vector<std::size_t> order(digested.digests.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::vector<bool> is_equal_copy = equal_copies(digested);
    std::erase_if(order, [&](std::size_t t) { return digested.canonical.roles[t] == Role::extra || is_equal_copy[t]; });
    std::ranges::sort(order, {},
                      [&](std::size_t t) -> const std::string& { return digested.canonical.tensors[t].name; });
    std::vector<std::string> opaque;
    for (std::size_t q = 0; q < digested.opaque.size(); ++q) {
        const formats::OpaqueTensor& tensor = digested.opaque[q];
        opaque.push_back(fmt::format("{} {} {} {}\n", tensor.name, tensor.type, to_string(tensor.shape),
                                     to_string(digested.blocks[q])));
    }
    std::ranges::sort(opaque);
    const auto for_each_line = [&](auto&& visit) {
        for (std::size_t t : order) {
            const Tensor& tensor = digested.canonical.tensors[t];
            visit(fmt::format("{} {} {} {}\n", tensor.name, name(tensor.dtype), to_string(tensor.shape),
                              to_string(digested.digests[t])));
        }
        for (const std::string& line : opaque) visit(line);
    };
    // For a million tensors, all lines together would take 100 MB.
    Index length = 0, begin = 0;
    for_each_line([&](const std::string& line) { length += static_cast<Index>(line.size()); });
    Digest digest;
    for_each_line([&](const std::string& line) {
        const Index end = begin + static_cast<Index>(line.size());
        add(digest, Shape{length}, 1, Box{{begin, end}}, std::as_bytes(std::span{line}).data());
        begin = end;
    });
    return to_string(digest);
}

/// Removes tensors of roles for which `wanted` returns false.
void keep_roles(formats::CanonicalTensors& canonical, const std::function<bool(const std::string& role)>& wanted) {
    constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();
    std::vector<std::uint32_t> numbers(canonical.tensors.size(), nowhere);
    std::uint32_t kept = 0;
    for (std::size_t t = 0; t < canonical.tensors.size(); ++t) {
        if (!wanted(std::string{name(canonical.roles[t])})) continue;
        if (kept != t) canonical.tensors[kept] = std::move(canonical.tensors[t]);
        canonical.stored[kept] = canonical.stored[t];
        canonical.within[kept] = canonical.within[t];
        canonical.roles[kept] = canonical.roles[t];
        numbers[t] = kept++;
    }
    canonical.tensors.resize(kept);
    canonical.stored.resize(kept);
    canonical.within.resize(kept);
    canonical.roles.resize(kept);
    std::erase_if(canonical.pieces, [&](const Piece& piece) { return numbers[piece.tensor] == nowhere; });
    for (Piece& piece : canonical.pieces) piece.tensor = numbers[piece.tensor];
}

/// The lines of all ranks, on every rank.
std::vector<std::string> lines_of_all(const mpi::Comm& comm, const std::vector<std::string>& mine) {
    std::string all;
    for (const std::string& text : mpi::gather(comm, fmt::format("{}", fmt::join(mine, "\n"))))
        all += text.empty() ? "" : text + "\n";
    mpi::broadcast(comm, all);
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < all.size(); begin = all.find('\n', begin) + 1)
        lines.push_back(all.substr(begin, all.find('\n', begin) - begin));
    return lines;
}

}  // namespace

std::vector<std::string> copy_notes(const CheckpointDigests& digested) {
    const std::vector<bool> is_equal_copy = equal_copies(digested);
    std::vector<std::string> notes;
    for (std::size_t t = 0; t < is_equal_copy.size(); ++t) {
        const formats::CanonicalTensors& canonical = digested.canonical;
        if (canonical.roles[t] == Role::copy && !is_equal_copy[t])
            notes.push_back(fmt::format("tensor '{}': differs from '{}', of which it should be a copy",
                                        canonical.stored_name(t), formats::original_name(canonical.tensors[t].name)));
    }
    return notes;
}

std::vector<DigestedTensor> all_tensors(const CheckpointDigests& digested) {
    std::vector<DigestedTensor> all;
    const formats::CanonicalTensors& canonical = digested.canonical;
    for (std::size_t t = 0; t < digested.digests.size(); ++t) {
        const Tensor& tensor = canonical.tensors[t];
        all.push_back({tensor.name, canonical.stored_name(t), std::string{name(tensor.dtype)}, tensor.shape,
                       std::string{name(canonical.roles[t])}, digested.digests[t]});
    }
    for (std::size_t q = 0; q < digested.opaque.size(); ++q) {
        const formats::OpaqueTensor& tensor = digested.opaque[q];
        all.push_back({tensor.name, tensor.name, tensor.type, tensor.shape, "weight", digested.blocks[q]});
    }
    return all;
}

Catalogue blocks_as_tensors(const formats::Checkpoint& checkpoint) {
    Catalogue blocks{.directory = checkpoint.catalogue.directory, .files = checkpoint.catalogue.files};
    for (const formats::OpaqueTensor& tensor : checkpoint.opaque) {
        const auto length = static_cast<Index>(tensor.bytes);
        const auto number = static_cast<std::uint32_t>(blocks.tensors.size());
        blocks.tensors.push_back({tensor.name, DType::u8, {length}});
        blocks.pieces.push_back(
            {.tensor = number, .file = tensor.file, .offset = tensor.offset, .box = {{0, length}}, .strides = {1}});
    }
    return blocks;
}

CheckpointDigests digest_all(const mpi::Comm& comm, formats::Source& source, const ExecOptions& options,
                             const std::function<bool(const std::string& role)>& wanted) {
    CheckpointDigests digested;
    const Catalogue& catalogue = source.checkpoint.catalogue;
    mpi::all_or_none(comm, [&] {
        in_path(catalogue.directory.string(), [&] {
            check_no_holes(catalogue);
            digested.canonical = canonical(source);
        });
        if (wanted) keep_roles(digested.canonical, wanted);
    });
    digested.digests = digests(comm, digested.canonical.side(), formats::paths(catalogue), options);
    digested.opaque = source.checkpoint.opaque;
    const Catalogue blocks = blocks_as_tensors(source.checkpoint);
    digested.blocks = digests(comm, {blocks.tensors, blocks.pieces}, formats::paths(blocks), options);
    digested.state = state_digest(digested);
    return digested;
}

std::vector<formats::RecordedDigests::FileDigest> digest_files(const Catalogue& files, ReadDigests& read,
                                                               const ExecOptions& options) {
    const std::vector<Digest> found = read.complete(options);
    std::vector<formats::RecordedDigests::FileDigest> named;
    for (std::size_t f = 0; f < found.size(); ++f)
        named.push_back({files.files[f].path.string(), files.files[f].size, to_string(found[f])});
    return named;
}

std::vector<std::string> damaged_archives(const mpi::Comm& comm, const formats::Source& source,
                                          const ExecOptions& options) {
    formats::ArchiveCheck mine;
    // A few MB may inflate to many GB, which takes a long time.
    mpi::all_or_none(comm, [&] { fit_decoding_memory(options, formats::paths(source.checkpoint.catalogue)); });
    mpi::all_or_none(comm, [&] {
        mine = formats::check_archives(source.checkpoint, comm.rank(), comm.size(),
                                       [&] { return options.cancelled != nullptr && options.cancelled->load() != 0; });
        check_not_stopped(options.cancelled);
    });
    return lines_of_all(comm, mine.damaged);
}

std::map<std::string, std::string> unreadable_files(const mpi::Comm& comm, const Catalogue& files) {
    std::vector<std::string> mine;
    for (std::size_t f = 0; f < files.files.size(); ++f) {
        if (f % std::size_t(comm.size()) != std::size_t(comm.rank())) continue;
        try {
            open_file(files.directory / files.files[f].path, O_RDONLY);
        } catch (const Error& error) {
            std::string cause = error.what();
            std::ranges::replace(cause, '\n', ' ');  // names of files may have line feeds
            mine.push_back(fmt::format("{} {}", f, cause));
        }
    }
    std::map<std::string, std::string> unreadable;
    for (const std::string& line : lines_of_all(comm, mine)) {
        const std::size_t blank = line.find(' ');
        unreadable[files.files[std::stoull(line.substr(0, blank))].path.string()] = line.substr(blank + 1);
    }
    return unreadable;
}

std::vector<std::string> compare_tensors(const CheckpointDigests& now, const formats::RecordedDigests& record) {
    std::vector<std::string> differences;
    std::map<std::string, DigestedTensor> present;
    for (DigestedTensor& tensor : all_tensors(now)) present.emplace(tensor.name, std::move(tensor));
    for (const auto& tensor : record.tensors) {
        const auto found = present.find(tensor.name);
        if (found == present.end()) {
            differences.push_back(fmt::format("tensor '{}': recorded, but not in the checkpoint", tensor.stored));
            continue;
        }
        if (to_string(found->second.digest) != tensor.digest || found->second.dtype != tensor.dtype)
            differences.push_back(fmt::format("tensor '{}' ({}): digest {} instead of {}", tensor.stored, tensor.name,
                                              to_string(found->second.digest), tensor.digest));
        present.erase(found);
    }
    for (const auto& [name, tensor] : present)
        if (record.has_tensors)
            differences.push_back(fmt::format("tensor '{}': in the checkpoint, but not recorded", tensor.stored));
    return differences;
}

std::vector<std::string> compare_files(std::span<const formats::RecordedDigests::FileDigest> now,
                                       const formats::RecordedDigests& record) {
    std::vector<std::string> differences;
    std::map<std::string, std::string> found_files;
    for (const auto& file : now) found_files[file.path] = file.digest;
    for (const auto& file : record.files) {
        const auto found = found_files.find(file.path);
        if (found == found_files.end())
            differences.push_back(fmt::format("file '{}': recorded, but missing", file.path));
        else if (found->second != file.digest)
            differences.push_back(
                fmt::format("file '{}': digest {} instead of {}", file.path, found->second, file.digest));
    }
    return differences;
}

}  // namespace tpx::cli
