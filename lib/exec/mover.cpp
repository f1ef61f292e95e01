// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/mover.hpp"

#include "lib/exec/copy_elements.hpp"
#include "lib/exec/rate_limiter.hpp"

#include <algorithm>
#include <array>

namespace tpx {
namespace {

std::string file_of(const MoveJob& job, const TimelineSpan& span) {
    if (span.stage == Stage::read) return job.source_files[span.file].path.string();
    if (span.stage == Stage::checksum || span.stage == Stage::write) return job.target_files[span.file].string();
    return {};
}

void add_timeline(Trace& trace, const MoveJob& job, int thread, const Timeline& timeline) {
    trace.dropped += timeline.dropped();
    for (const TimelineSpan& span : timeline.spans())
        trace.add(thread, stage_names[static_cast<std::size_t>(span.stage)], span.begin, span.end, span.bytes,
                  file_of(job, span));
}

}  // namespace

void Mover::carry(Tile& tile) {
    const std::uint64_t overflows_before = overflows_.count();
    const std::uint64_t shared_before = bytes_shared;
    arena_.clear();
    reflinks_.begin(job_.block_size);
    crc_ = 0;
    Window sources{tile.sources};
    Window targets{tile.targets};
    sources.place_for_reading(arena_);
    targets.place_for_writing(arena_);
    std::uint64_t read = 0;
    {
        ScopedTimer timed{timeline, Stage::read, tile.sources.front().file};
        timed.span.bytes = read = sources.read(sources_);
        bytes_read += read;
    }
    {
        const ScopedTimer timed{timeline, Stage::copy};
        for (const TilePart& part : tile.parts) copy(part, tile, sources, targets);
        reflinks_.settle();
    }
    targets.write([this](auto file, auto offset, auto bytes) { write(file, offset, bytes); });
    bytes_done += tile.bytes;
    if (job_.rate_limiter != nullptr)
        job_.rate_limiter->throttle(read, tile.bytes - (bytes_shared - shared_before), job_.cancelled);
    // Tiles with overflows are not recorded, so that a run that continues this one finds the overflow again.
    if (job_.journal && overflows_.count() == overflows_before) job_.journal->add({tile.range(), crc_});
}

void Mover::copy(const TilePart& part, const Tile& tile, const Window& sources, const Window& targets) {
    const Move& move = job_.moves[part.move];
    const Image& from = tile.sources[part.source];
    const Image& to = tile.targets[part.target];
    const Piece& piece = job_.source.pieces[move.source];
    const std::byte* values = sources.at(part.source) + place_in(from, part.box);
    const DType was = job_.source.tensors[piece.tensor].dtype;
    const Tensor& tensor = job_.target.tensors[job_.target.pieces[move.target].tensor];
    std::byte* const at = targets.at(part.target);
    if (cast_elements(sizes(part.box), values, from.strides(), was, at + place_in(to, part.box), to.strides(),
                      tensor.dtype))
        overflows_.add(piece, part.box, values, from.strides(), was, tensor.dtype);
    if (was == tensor.dtype) note_equal(move, part.box);
    if (job_.move_digests == nullptr || !job_.move_digests->includes(move.target)) return;
    Digest sum;
    digester_.add(sum, tensor.shape, part.box, to, at, tensor.dtype, tensor.dtype);
    job_.move_digests->add(move.target, sum);
}

void Mover::note_equal(const Move& move, const Box& box) {
    const Piece& source = job_.source.pieces[move.source];
    const Piece& target = job_.target.pieces[move.target];
    const int size = itemsize(job_.source.tensors[source.tensor].dtype);
    if (!reflinks_.may_share(source.file) || !sources_.is_stored(source.file)) return;
    if (const auto run = equal_run(source, target, size, box)) reflinks_.add(*run);
}

void Mover::write(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
    {
        const ScopedTimer timed{timeline, Stage::checksum, file};
        job_.crcs.add(file, offset, bytes);
        if (job_.journal || job_.file_crcs != nullptr) {
            const std::uint64_t crc = Crc64::of(bytes);
            if (job_.journal) crc_ ^= job_.written.at(file, offset, bytes.size(), crc);
            if (job_.file_crcs != nullptr) job_.file_crcs->add(file, offset, bytes.size(), crc);
        }
    }
    ScopedTimer timed{timeline, Stage::write, file};
    timed.span.bytes = bytes.size();
    write_or_share(file, offset, bytes);
}

// Shares the runs that can be shared, and writes the rest. The checksum of `bytes` is already known.
void Mover::write_or_share(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
    std::uint64_t done = 0;
    const auto write_up_to = [&](std::uint64_t end) {
        if (end > done) targets_.write(file, offset + done, bytes.subspan(done, end - done));
    };
    for (const EqualRun& run : reflinks_.within(file, offset, offset + bytes.size())) {
        if (!reflinks_.share(run)) continue;
        write_up_to(run.target - offset);
        done = run.end() - offset;
        bytes_shared += run.length;
    }
    write_up_to(bytes.size());
}

std::uint64_t bytes_done(const Movers& movers) {
    std::uint64_t done = 0;
    for (const auto& mover : movers) done += mover->bytes_done;
    return done;
}

std::string_view slowest_stage(const Movers& movers) {
    std::array<std::uint64_t, stage_count> sums{};
    for (const auto& mover : movers)
        for (std::size_t k = 0; k < stage_count; ++k) sums[k] += mover->timeline.nanoseconds(static_cast<Stage>(k));
    const auto longest = std::ranges::max_element(sums);
    return *longest == 0 ? std::string_view{} : stage_names[static_cast<std::size_t>(longest - sums.begin())];
}

void add_spans(Trace* trace, const MoveJob& job, const Timeline& own, const Movers& movers) {
    if (trace == nullptr) return;
    add_timeline(*trace, job, 0, own);
    for (std::size_t k = 0; k < movers.size(); ++k)
        add_timeline(*trace, job, static_cast<int>(k) + 1, movers[k]->timeline);
}

}  // namespace tpx
