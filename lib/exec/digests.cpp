// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/digests.hpp"

#include "lib/exec/box_digester.hpp"
#include "lib/exec/copy_elements.hpp"
#include "lib/exec/share_runner.hpp"
#include "lib/exec/source_files.hpp"
#include "lib/exec/tiles.hpp"
#include "lib/exec/window.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <tuple>

namespace tpx {
namespace {

// Bytes should still be in the L2 cache when their digest is computed. The size of a tile counts them twice.
constexpr std::uint64_t digest_tile = std::uint64_t{4} << 20;

struct DigestJob {
    const Moves& moves;  // from each piece to itself
    Side stored;
    Side cast;
    std::span<const SourceFile> files;
    std::vector<std::uint64_t>& crcs;  // by piece
};

class Reader {
public:
    Reader(const DigestJob& job, std::uint64_t memory, ReadDigests* read)
        : job_{job}, arena_{memory}, files_{job.files, read} {}

    void take(Tile& tile) {
        arena_.clear();
        Window window{tile.sources};
        window.place_for_reading(arena_);
        window.read(files_);
        for (const TilePart& part : tile.parts) digest(part, tile.sources[part.source], window.at(part.source));
        bytes_done += tile.bytes;
    }

    std::atomic<std::uint64_t> bytes_done{0};

private:
    void digest(const TilePart& part, const Image& image, const std::byte* at) {
        const std::uint32_t index = job_.moves[part.move].source;
        const std::uint32_t tensor = job_.stored.pieces[index].tensor;
        const Tensor& stored = job_.stored.tensors[tensor];
        Digest sum;
        digester_.add(sum, stored.shape, part.box, image, at, stored.dtype, job_.cast.tensors[tensor].dtype);
        std::atomic_ref{job_.crcs[index]}.fetch_xor(sum.crc, std::memory_order_relaxed);
    }

    const DigestJob& job_;
    Arena arena_;
    SourceFiles files_;
    BoxDigester digester_;
};

// The tensors with the dtypes of their digests; empty if no tensor is cast, because a copy of a million tensors takes
// 100 MB.
std::vector<Tensor> cast_tensors(std::span<const Tensor> tensors, std::span<const DType> dtypes) {
    bool same = true;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (itemsize(tensors[t].dtype) == 0)
            throw failure("tensor '{}': elements of {} are not whole bytes", tensors[t].name, name(tensors[t].dtype));
        same = same && tensors[t].dtype == dtypes[t];
    }
    if (same) return {};
    std::vector<Tensor> result{tensors.begin(), tensors.end()};
    for (std::size_t t = 0; t < result.size(); ++t)
        if (can_cast(result[t].dtype, dtypes[t])) result[t].dtype = dtypes[t];
    return result;
}

// The digests of the tensors, from those of their pieces; equal boxes count once.
std::vector<Digest> sum_up(const DigestJob& job) {
    const std::span<const Piece> pieces = job.cast.pieces;
    std::vector<std::uint32_t> order(pieces.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t k) { return std::tie(pieces[k].tensor, pieces[k].box); });
    std::vector<Digest> digests(job.cast.tensors.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
        const Piece& piece = pieces[order[k]];
        const Tensor& tensor = job.cast.tensors[piece.tensor];
        if (k > 0 && pieces[order[k - 1]].tensor == piece.tensor && pieces[order[k - 1]].box == piece.box) {
            if (job.crcs[order[k]] == job.crcs[order[k - 1]]) continue;
            throw Error{Exit::no,
                        "tensor '{}': {} and {} hold different copies of {}",
                        tensor.name,
                        job.files[pieces[order[k - 1]].file].path.string(),
                        job.files[piece.file].path.string(),
                        to_string(piece.box)};
        }
        Digest& digest = digests[piece.tensor];
        digest.crc ^= job.crcs[order[k]];
        digest.bytes += static_cast<std::uint64_t>(volume(piece.box) * itemsize(tensor.dtype));
        if (digest.bytes > static_cast<std::uint64_t>(volume(tensor.shape) * itemsize(tensor.dtype)))
            throw failure("tensor '{}': pieces overlap, as {} does", tensor.name, to_string(piece.box));
    }
    return digests;
}

}  // namespace

std::vector<Digest> digests(const mpi::Comm& comm, const Side& side, std::span<const SourceFile> files,
                            const ExecOptions& options, std::optional<DType> cast) {
    std::vector<DType> dtypes;
    for (const Tensor& tensor : side.tensors) dtypes.push_back(cast.value_or(tensor.dtype));
    return digests_as(comm, side, files, options, dtypes);
}

std::vector<Digest> digests_as(const mpi::Comm& comm, const Side& side, std::span<const SourceFile> files,
                               const ExecOptions& options, std::span<const DType> dtypes) {
    Moves moves;
    std::vector<Tensor> tensors;
    std::vector<std::uint64_t> crcs(side.pieces.size());
    std::vector<std::unique_ptr<Reader>> readers;
    FittedOptions fitted;
    moves.reserve(side.pieces.size());
    for (std::uint32_t k = 0; k < side.pieces.size(); ++k) moves.push_back({k, k, side.pieces[k].box});
    mpi::all_or_none(comm, [&] {
        tensors = cast_tensors(side.tensors, dtypes);
        check_lengths(comm, side, std::vector<bool>(side.pieces.size(), true), files);
        fitted = fit_decoding_memory(options, files);
    });
    const DigestJob job{moves, side, {tensors.empty() ? side.tensors : tensors, side.pieces}, files, crcs};
    mpi::all_or_none(comm, [&] {
        for (int k = 0; k < fitted.options.threads; ++k)
            readers.push_back(std::make_unique<Reader>(job, fitted.memory, options.read_digests));
    });
    const Tiler tiler{moves, side, job.cast, {fitted.memory, digest_tile, decoded(files)}};
    const ByteRanges none;
    const auto take = [&](int thread, Tile& tile) { readers[static_cast<std::size_t>(thread)]->take(tile); };
    const auto bytes_done = [&] {
        std::uint64_t done = 0;
        for (const auto& reader : readers) done += reader->bytes_done;
        return done;
    };
    process_tiles(comm, fitted.options, tiler, none, std::min(fitted.memory, digest_tile), {take, bytes_done});
    mpi::all_xor(comm, crcs);
    std::vector<Digest> result;
    mpi::all_or_none(comm, [&] { result = sum_up(job); });
    return result;
}

}  // namespace tpx
