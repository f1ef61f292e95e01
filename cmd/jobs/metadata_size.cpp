// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/metadata_size.hpp"

#include "formats/convert/canonical.hpp"
#include "lib/change/moves.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace tpx::cli {
namespace {

constexpr std::uint64_t mebi = std::uint64_t{1} << 20;
constexpr std::uint64_t least_buffers = 16 * mebi;
constexpr std::uint64_t least_memory = mebi;

// A limit of at least `least_promised` bytes is either kept or rejected. A smaller one limits only the buffers, unless
// the metadata take more than `noticeable` bytes.
constexpr std::uint64_t least_promised = 64 * mebi, noticeable = 8 * mebi;

/// The memory that a tensor takes in addition to its name: itself, its numbers and role, its digest, its entries in
/// tables while canonical tensors are created and read, and its entry in the order of names.
constexpr std::uint64_t of_tensor = sizeof(Tensor) + 24 + 16 + 40 + 40 + 8;

/// The memory that a piece takes: itself, the move in which it is read, its CRC, and its entries in sorted orders.
constexpr std::uint64_t of_piece = sizeof(Piece) + sizeof(Move) + 8 + 18;

/// The memory that malloc takes for the characters of `text`, unless they are stored in the string object itself.
std::uint64_t memory_of(const std::string& text) {
    constexpr std::size_t inside = 15, overhead = 9, unit = 16;
    return text.size() <= inside ? 0 : (text.size() + overhead + unit - 1) / unit * unit;
}

/// The memory of this process in bytes, now and at its peak.
struct Taken {
    std::uint64_t now = 0;
    std::uint64_t most = 0;
};

Taken taken() {
    // Memory that readers have freed must not count.
    ::malloc_trim(0);
    std::uint64_t size = 0, resident = 0;
    std::ifstream{"/proc/self/statm"} >> size >> resident;
    struct rusage usage {};
    ::getrusage(RUSAGE_SELF, &usage);
    return {resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)),
            static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
}

/// A limit that is sufficient for `bytes`, with a margin for variation between runs, as a multiple of 64 MiB.
std::uint64_t rounded_up(std::uint64_t bytes) {
    constexpr std::uint64_t step = 64 * mebi;
    return (bytes + bytes / 32 + step - 1) / step * step;
}

std::string limit_text(std::uint64_t bytes) {
    return bytes % mebi == 0 ? fmt::format("{}MiB", bytes / mebi) : fmt::format("{}", bytes);
}

}  // namespace

MetadataSize& MetadataSize::operator+=(const MetadataSize& other) {
    tensors += other.tensors;
    pieces += other.pieces;
    bytes += other.bytes;
    return *this;
}

MetadataSize metadata_of(const formats::Source& source, std::uint64_t more) {
    MetadataSize size;
    formats::for_each_canonical(source, [&](const Part& part, std::size_t pieces) {
        ++size.tensors;
        size.pieces += pieces;
        size.bytes += of_tensor + memory_of(part.name) + pieces * of_piece + more;
    });
    return size;
}

MetadataSize metadata_of(const formats::Conversion& conversion, const Moves& moves) {
    // An entry in the order of moves; the checksum of a payload and its entry in a table; a record of the journal.
    constexpr std::uint64_t of_move = 2 * sizeof(std::uint32_t), of_payload = 40, of_record = 32;
    MetadataSize size;
    size.tensors = conversion.draft.tensors.size();
    size.pieces = conversion.draft.pieces.size();
    size.bytes = moves.size() * of_move + size.pieces * (of_payload + of_record) + size.tensors * sizeof(Tensor);
    size.pieces += conversion.source_pieces.size();  // for messages only: these are in memory already
    return size;
}

ExecOptions limits_within(const mpi::Comm& comm, std::uint64_t memory, const MetadataSize& metadata) {
    if (memory < least_memory)
        throw mpi::AgreedError{
            usage_error("--memory {} is too small; use at least {}", limit_text(memory), limit_text(least_memory))};
    const Taken mine = taken();
    std::uint64_t needed = std::max(mine.most, mine.now + metadata.bytes + least_buffers);
    mpi::all_max(comm, {&needed, 1});
    if (needed > memory && (memory >= least_promised || metadata.bytes > noticeable))
        throw mpi::AgreedError{failure("--memory {} is too small for the metadata of {} and {}; use --memory {}",
                                       limit_text(memory), counted(metadata.tensors, "tensor"),
                                       counted(metadata.pieces, "piece"), limit_text(rounded_up(needed)))};
    ExecOptions limits;
    const std::uint64_t rest = memory > metadata.bytes ? memory - metadata.bytes : 0;
    limits.memory = buffers_within(comm, std::max(rest, std::min(memory, least_buffers)));
    return limits;
}

}  // namespace tpx::cli
