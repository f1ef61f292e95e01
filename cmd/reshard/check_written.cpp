// SPDX-License-Identifier: Apache-2.0
#include "cmd/reshard/check_written.hpp"

#include "formats/values/training_values.hpp"
#include "formats/values/value_paths.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/digests.hpp"
#include "lib/exec/page_cache.hpp"

#include <fcntl.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace tpx::cli {
namespace {

/// A run of bytes of a new file that belongs to no tensor.
struct CheckRun {
    const std::filesystem::path& file;
    std::uint64_t offset;
    std::uint64_t length;
};

/// Throws Error unless `run` contains the bytes that `expected(begin, size)` returns chunk by chunk.
template <class Expected>
void check_run(const CheckRun& run, Expected&& expected) {
    constexpr std::uint64_t chunk = std::uint64_t{1} << 20;
    const Fd fd = open_file(run.file, O_RDONLY);
    for (std::uint64_t done = 0; done < run.length; done += chunk) {
        std::string found(std::min(chunk, run.length - done), '\0');
        read_at(fd, run.offset + done, std::as_writable_bytes(std::span{found}), run.file);
        const std::string wanted = expected(done, found.size());
        if (found == wanted) continue;
        const auto at = std::ranges::mismatch(found, wanted).in1 - found.begin();
        throw failure("{}: byte {} read back differs from the byte that was written", run.file.string(),
                      run.offset + done + static_cast<std::uint64_t>(at));
    }
}

/// A range of bytes of a file that are written later than the draft's fixed bytes.
struct Late {
    std::uint32_t file = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    friend auto operator<=>(const Late&, const Late&) = default;
};

/// The bytes of a draft's files that payloads, copies and CRC-32s fill; ranges that touch are joined. They are checked
/// elsewhere: payloads as tensors, copies against their sources, CRC-32s when archives are opened.
std::vector<Late> late_bytes(const Draft& draft) {
    std::vector<Late> all;
    for (const Draft::CrcSlot& slot : draft.crc_slots) all.push_back({slot.file, slot.offset, slot.offset + 4});
    for (const Draft::Copy& copy : draft.copies) all.push_back({copy.file, copy.offset, copy.offset + copy.length});
    for (const Piece& piece : draft.pieces) {
        if (empty(piece.box)) continue;
        Index elements = 1;
        for (int k = 0; k < piece.box.size(); ++k)
            elements += (piece.box[k].end - piece.box[k].begin - 1) * piece.strides[k];
        const Index last = elements * itemsize(draft.tensors[piece.tensor].dtype);
        all.push_back({piece.file, piece.offset, piece.offset + static_cast<std::uint64_t>(last)});
    }
    std::ranges::sort(all);
    std::vector<Late> joined;
    for (const Late& late : all) {
        if (!joined.empty() && joined.back().file == late.file && late.begin <= joined.back().end)
            joined.back().end = std::max(joined.back().end, late.end);
        else
            joined.push_back(late);
    }
    return joined;
}

/// The fixed bytes of a draft's files, by file and offset. Entries that lie within earlier ones, such as CRC-32s,
/// replace their bytes.
std::vector<Draft::Fixed> merged_fixed(const Draft& draft) {
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::string> runs;
    for (const Draft::Fixed& fixed : draft.fixed) {
        auto around = runs.upper_bound({fixed.file, fixed.offset});
        if (around != runs.begin()) --around;
        const bool within = around != runs.end() && around->first.first == fixed.file &&
                            around->first.second <= fixed.offset &&
                            fixed.offset + fixed.bytes.size() <= around->first.second + around->second.size();
        if (within)
            around->second.replace(fixed.offset - around->first.second, fixed.bytes.size(), fixed.bytes);
        else
            runs[{fixed.file, fixed.offset}] = fixed.bytes;
    }
    std::vector<Draft::Fixed> all;
    for (auto& [place, bytes] : runs) all.push_back({place.first, place.second, std::move(bytes)});
    return all;
}

/// The bytes of `fixed`, with those that are written later replaced by the bytes of the file.
std::string with_late(const Draft::Fixed& fixed, std::span<const Late> late, const std::filesystem::path& path) {
    std::string bytes = fixed.bytes;
    const std::uint64_t end = fixed.offset + bytes.size();
    auto next = std::ranges::upper_bound(late, Late{fixed.file, fixed.offset, 0});
    if (next != late.begin()) --next;
    std::optional<Fd> fd;
    for (; next != late.end() && (next->file < fixed.file || (next->file == fixed.file && next->begin < end)); ++next) {
        const std::uint64_t from = std::max(next->begin, fixed.offset);
        const std::uint64_t to = std::min(next->end, end);
        if (next->file != fixed.file || from >= to) continue;
        if (!fd) fd = open_file(path, O_RDONLY);
        read_at(*fd, from, std::as_writable_bytes(std::span{bytes}.subspan(from - fixed.offset, to - from)), path);
    }
    return bytes;
}

std::uint64_t check_metadata(const mpi::Comm& comm, const Draft& draft, std::span<const SourceFile> files) {
    std::uint64_t bytes = 0;
    std::size_t number = 0;
    const auto is_mine = [&] { return number++ % static_cast<std::size_t>(comm.size()) == std::size_t(comm.rank()); };
    const std::vector<Late> late = late_bytes(draft);
    for (const Draft::Fixed& fixed : merged_fixed(draft)) {
        bytes += fixed.bytes.size();
        if (!is_mine()) continue;
        const CheckRun run{files[fixed.file].path, fixed.offset, fixed.bytes.size()};
        const std::string wanted = with_late(fixed, late, run.file);
        check_run(run, [&](std::uint64_t begin, std::size_t size) { return wanted.substr(begin, size); });
    }
    for (const Draft::Copy& copy : draft.copies) {
        bytes += copy.length;
        if (!is_mine()) continue;
        const Fd source = open_file(copy.source, O_RDONLY);
        check_run({files[copy.file].path, copy.offset, copy.length}, [&](std::uint64_t begin, std::size_t size) {
            std::string wanted(size, '\0');
            read_at(source, copy.source_offset + begin, std::as_writable_bytes(std::span{wanted}), copy.source);
            return wanted;
        });
    }
    return bytes;
}

}  // namespace

std::vector<Digest> expected_digests(const mpi::Comm& comm, const ReshardJob& job, std::vector<Digest> moved, bool all,
                                     const ExecOptions& exec) {
    const formats::Conversion& conversion = job.conversion;
    const Side source = conversion.source_side();
    std::vector<bool> is_read(source.pieces.size());
    for (const Move& move : job.moves) is_read[move.source] = true;
    std::vector<bool> again(source.tensors.size(), all);
    for (std::size_t k = 0; k < is_read.size(); ++k) {
        if (!is_read[k] && !empty(source.pieces[k].box)) again[source.pieces[k].tensor] = true;
    }
    std::vector<Piece> pieces;
    std::ranges::copy_if(source.pieces, std::back_inserter(pieces), [&](const Piece& it) { return again[it.tensor]; });
    if (pieces.empty()) return moved;
    std::vector<DType> dtypes;
    for (const Tensor& tensor : conversion.target_tensors) dtypes.push_back(tensor.dtype);
    const std::vector<SourceFile> files = formats::paths(job.opened.source.checkpoint.catalogue);
    const std::vector<Digest> digests = digests_as(comm, {source.tensors, pieces}, files, exec, dtypes);
    for (std::size_t t = 0; t < digests.size(); ++t) {
        if (again[t]) moved[t] = digests[t];
    }
    return moved;
}

VerifyResult check_written(const mpi::Comm& comm, const formats::Conversion& conversion, std::span<const Digest> wanted,
                           std::span<const SourceFile> files, const ExecOptions& exec) {
    VerifyResult verified;
    mpi::barrier(comm);  // all ranks have written
    std::vector<std::uint64_t> kept{0};
    mpi::all_or_none(comm, [&] {
        for (const SourceFile& file : files) kept[0] += drop_from_page_cache(file.path) ? 0 : 1;
    });
    mpi::all_sum(comm, kept);
    verified.from_disk = kept[0] == 0;
    const auto is = digests(comm, conversion.target_side(), files, exec);
    for (std::size_t t = 0; t < is.size(); ++t) {
        if (wanted[t] != is[t])
            throw mpi::AgreedError{failure("tensor '{}': read back with digest {} instead of {}",
                                           conversion.target_tensors[t].name, to_string(is[t]), to_string(wanted[t]))};
        ++verified.tensors;
        verified.bytes += is[t].bytes;
        verified.cast += conversion.source_tensors[t].dtype == conversion.target_tensors[t].dtype ? 0 : 1;
    }
    mpi::all_or_none(comm, [&] { verified.metadata = check_metadata(comm, conversion.draft, files); });
    return verified;
}

namespace {

/// The values of `checkpoint`. Throws Error if one cannot be read, because it would not be compared.
std::vector<formats::TrainingValue> all_values(const formats::Checkpoint& checkpoint) {
    formats::TrainingValues found = formats::training_values(checkpoint);
    if (!found.unread.empty())
        throw failure("{}: values cannot be compared: {}", checkpoint.catalogue.directory.string(), found.unread[0]);
    return std::move(found.values);
}

}  // namespace

void check_values(const mpi::Comm& comm, const formats::Checkpoint& source, const formats::Checkpoint& output,
                  VerifyResult& verified) {
    std::string found_text;
    mpi::all_or_none(comm, [&] {
        if (comm.rank() != 0) return;
        std::map<std::tuple<std::string, std::string, std::string>, std::string> there;
        for (const formats::TrainingValue& value : all_values(output))
            there[{value.role, value.path, value.place}] = value.text;
        std::uint64_t equal = 0;
        std::map<std::string, std::uint64_t> dropped;
        for (const formats::TrainingValue& value : all_values(source)) {
            const auto found = there.find({value.role, value.path, value.place});
            if (found == there.end() && !formats::is_default(value.path, value.text)) ++dropped[value.role];
            if (found == there.end()) continue;
            if (found->second != value.text)
                throw failure("{} '{}': {:.100} in the source, {:.100} in the output", value.role, value.path,
                              value.text, found->second);
            ++equal;
        }
        found_text = nlohmann::json{{"equal", equal}, {"dropped", dropped}}.dump();
    });
    mpi::broadcast(comm, found_text);
    const nlohmann::json counts = nlohmann::json::parse(found_text);
    verified.values = counts["equal"];
    verified.dropped = counts["dropped"];
}

std::string to_text(const VerifyResult& verified) {
    const auto bytes = [](std::uint64_t count) { return format_bytes(static_cast<double>(count)); };
    std::vector<std::string> dropped;
    for (const auto& [role, count] : verified.dropped) dropped.push_back(fmt::format("{} {}", count, role));
    return fmt::format("verified: {} tensor{}, {} read back from {}, {} cast; {} of metadata; {} value{}{}",
                       verified.tensors, verified.tensors == 1 ? "" : "s", bytes(verified.bytes),
                       verified.from_disk ? "disk" : "memory, where the file system keeps files", verified.cast,
                       bytes(verified.metadata), verified.values, verified.values == 1 ? "" : "s",
                       dropped.empty() ? "" : fmt::format(" (not in the output: {})", fmt::join(dropped, ", ")));
}

nlohmann::ordered_json to_json(const VerifyResult& verified) {
    std::uint64_t dropped = 0;
    for (const auto& [role, count] : verified.dropped) dropped += count;
    return {{"tensors", verified.tensors},         {"bytes", verified.bytes},        {"cast", verified.cast},
            {"metadata", verified.metadata},       {"values", verified.values},      {"values_dropped", dropped},
            {"dropped_by_role", verified.dropped}, {"from_disk", verified.from_disk}};
}

}  // namespace tpx::cli
