// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/wire/exchange.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/write_file.hpp"
#include "lib/exec/byte_ranges.hpp"
#include "lib/exec/pace.hpp"
#include "lib/exec/signals.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>

namespace tpx {
namespace {

constexpr std::uint64_t chunk_size = std::uint64_t{1} << 20;
constexpr std::size_t slot_count = 4;  // each way

/// A part of a transfer that is one message.
struct Chunk {
    std::uint32_t transfer = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

/// The chunks of the transfers that this host sends, or of those that it receives, in the order of the transfers.
class Course {
public:
    Course(const ExchangeJob& job, std::uint32_t Transfer::*side) : job_{job}, side_{side} { find(); }

    /// The next chunk; nothing when all were taken.
    std::optional<Chunk> next() const {
        if (transfer_ == job_.transfers.size()) return std::nullopt;
        const Transfer& transfer = job_.transfers[transfer_];
        // A message ends where an element does; elements are far smaller.
        const std::uint64_t end =
            std::min(transfer.end, job_.parcels.parcels[transfer.parcel].align(begin_ + chunk_size));
        return Chunk{static_cast<std::uint32_t>(transfer_), begin_, end};
    }

    void take(const Chunk& chunk) {
        begin_ = chunk.end;
        if (begin_ < job_.transfers[transfer_].end) return;
        ++transfer_;
        find();
    }

private:
    void find() {
        while (transfer_ < job_.transfers.size() && job_.transfers[transfer_].*side_ != job_.host) ++transfer_;
        if (transfer_ < job_.transfers.size()) begin_ = job_.transfers[transfer_].begin;
    }

    const ExchangeJob& job_;
    std::uint32_t Transfer::*side_;
    std::size_t transfer_ = 0;
    std::uint64_t begin_ = 0;
};

/// Messages under way in one direction, each with its buffer.
class Slots {
public:
    Slots() {
        for (auto& buffer : buffers_) buffer.resize(chunk_size);
    }

    /// The number of a free slot; nothing when all are in use.
    std::optional<std::size_t> free() const {
        const auto slot = std::ranges::find_if(requests_, &mpi::Request::is_empty);
        return slot == requests_.end() ? std::nullopt : std::optional{std::size_t(slot - requests_.begin())};
    }

    bool any() const { return !std::ranges::all_of(requests_, &mpi::Request::is_empty); }

    /// The slots whose messages have ended since the last call.
    std::vector<std::size_t> ended() {
        std::vector<std::size_t> slots;
        for (std::size_t slot = 0; slot < slot_count; ++slot)
            if (!requests_[slot].is_empty() && requests_[slot].test()) slots.push_back(slot);
        return slots;
    }

    std::span<std::byte> bytes(std::size_t slot, const Chunk& chunk) {
        chunks_[slot] = chunk;
        return std::span{buffers_[slot]}.first(chunk.end - chunk.begin);
    }
    std::span<const std::byte> bytes(std::size_t slot) const {
        return std::span{buffers_[slot]}.first(chunks_[slot].end - chunks_[slot].begin);
    }
    const Chunk& chunk(std::size_t slot) const { return chunks_[slot]; }
    mpi::Request& request(std::size_t slot) { return requests_[slot]; }

private:
    std::array<mpi::Request, slot_count> requests_;
    std::array<std::vector<std::byte>, slot_count> buffers_;
    std::array<Chunk, slot_count> chunks_{};
};

class Exchange {
public:
    Exchange(const mpi::Comm& comm, const ExchangeJob& job, const ExecOptions& options)
        : comm_{comm}, job_{job}, options_{options}, sends_{job, &Transfer::from}, receives_{job, &Transfer::to} {
        inbox_ = open_file(job.path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    }

    Exchanged run() {
        using namespace std::chrono_literals;
        constexpr auto longest_sleep = 200us;
        auto sleep = 5us;
        while (sends_.next() || receives_.next() || outgoing_.any() || incoming_.any()) {
            check_stopped();
            mpi::call_hook(false);
            if (step()) {
                sleep = 5us;
                continue;
            }
            std::this_thread::sleep_for(sleep);
            sleep = std::min(2 * sleep, std::chrono::microseconds{longest_sleep});
        }
        close_file(std::move(inbox_), job_.path);
        return done_;
    }

private:
    /// Whether anything could be done.
    bool step() {
        bool moved = false;
        while (receive_next()) moved = true;
        if (send_next()) moved = true;
        for (std::size_t slot : incoming_.ended()) {
            keep(incoming_.chunk(slot), incoming_.bytes(slot));
            moved = true;
        }
        return !outgoing_.ended().empty() || moved;
    }

    bool receive_next() {
        const auto chunk = receives_.next();
        const auto slot = incoming_.free();
        if (!chunk || !slot || !may_write()) return false;
        const auto bytes = incoming_.bytes(*slot, *chunk);
        incoming_.request(*slot) =
            mpi::start_receive(comm_, rank_of(job_.transfers[chunk->transfer].from), mpi::Tag::chunk, bytes);
        receives_.take(*chunk);
        return true;
    }

    bool send_next() {
        const auto chunk = sends_.next();
        const auto slot = outgoing_.free();
        if (!chunk || !slot || !may_read()) return false;
        const Transfer& transfer = job_.transfers[chunk->transfer];
        if (transfer.forwards && !received_.contains(range_of(*chunk))) return false;
        const auto bytes = outgoing_.bytes(*slot, *chunk);
        if (transfer.forwards)
            read_at(inbox_, range_of(*chunk).begin, bytes, job_.path);
        else
            job_.packer.pack(transfer.parcel, chunk->begin, bytes);
        outgoing_.request(*slot) = mpi::start_send(comm_, rank_of(transfer.to), mpi::Tag::chunk, bytes);
        done_.sent += bytes.size();
        if (options_.pace != nullptr) options_.pace->count_read(bytes.size());
        sends_.take(*chunk);
        return true;
    }

    void keep(const Chunk& chunk, std::span<const std::byte> bytes) {
        write_at(inbox_, range_of(chunk).begin, bytes, job_.path);
        received_.add(range_of(chunk));
        done_.received += bytes.size();
        if (options_.pace != nullptr) options_.pace->count_written(bytes.size());
        if (options_.progress) options_.progress(done_.received, job_.inbox.size(), "network");
    }

    bool may_read() const { return options_.pace == nullptr || options_.pace->may_read(); }
    bool may_write() const { return options_.pace == nullptr || options_.pace->may_write(); }

    int rank_of(std::uint32_t host) const { return job_.rank_of_host[host]; }

    /// Where the bytes of a chunk lie in the inbox of this host, which receives or has received them.
    ByteRange range_of(const Chunk& chunk) const {
        const std::uint32_t parcel = job_.transfers[chunk.transfer].parcel;
        return {job_.inbox.place(parcel, chunk.begin), job_.inbox.place(parcel, chunk.end)};
    }

    void check_stopped() const {
        if (options_.cancelled == nullptr) return;
        if (const int signal = *options_.cancelled) throw Error{exit_of(signal), "stopped on request"};
    }

    const mpi::Comm& comm_;
    const ExchangeJob& job_;
    const ExecOptions& options_;
    Course sends_;
    Course receives_;
    Slots outgoing_;
    Slots incoming_;
    Fd inbox_;
    ByteRanges received_;
    Exchanged done_;
};

}  // namespace

Exchanged exchange(const mpi::Comm& comm, const ExchangeJob& job, const ExecOptions& options) {
    return Exchange{comm, job, options}.run();
}

}  // namespace tpx
