// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/wire/exchange.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/write_file.hpp"
#include "lib/exec/arrivals.hpp"
#include "lib/exec/byte_ranges.hpp"
#include "lib/exec/rate_limiter.hpp"
#include "lib/exec/stop_signals.hpp"
#include "lib/exec/wire/transfer_schedule.hpp"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tpx {
namespace {

/// Messages in progress in one direction, each with its buffer.
class Slots {
public:
    explicit Slots(std::size_t count) : requests_(count), buffers_(count), chunks_(count), ranks_(count) {
        for (auto& buffer : buffers_) buffer.resize(chunk_size);
    }

    /// The number of a free slot; nothing when all are in use.
    std::optional<std::size_t> free() const {
        const auto slot = std::ranges::find_if(requests_, &mpi::Request::is_empty);
        return slot == requests_.end() ? std::nullopt : std::optional{std::size_t(slot - requests_.begin())};
    }

    bool any() const { return !order_.empty(); }

    /// Prepares a free slot for a chunk from or to `rank`.
    std::span<std::byte> begin(std::size_t slot, const TransferChunk& chunk, int rank) {
        chunks_[slot] = chunk;
        ranks_[slot] = rank;
        order_.push_back(slot);
        return std::span{buffers_[slot]}.first(chunk.end - chunk.begin);
    }

    /// The slots whose messages have ended since the last call. For each rank, only the oldest message is tested until
    /// it has ended, because every test of an unfinished message makes MPI go through all of its work.
    std::vector<std::size_t> ended() {
        std::vector<std::size_t> slots;
        std::vector<int> waiting;
        std::erase_if(order_, [&](std::size_t slot) {
            if (std::ranges::find(waiting, ranks_[slot]) != waiting.end()) return false;
            const bool is_done = requests_[slot].test();
            is_done ? slots.push_back(slot) : waiting.push_back(ranks_[slot]);
            return is_done;
        });
        return slots;
    }

    std::span<const std::byte> bytes(std::size_t slot) const {
        return std::span{buffers_[slot]}.first(chunks_[slot].end - chunks_[slot].begin);
    }
    const TransferChunk& chunk(std::size_t slot) const { return chunks_[slot]; }
    mpi::Request& request(std::size_t slot) { return requests_[slot]; }

private:
    std::vector<mpi::Request> requests_;
    std::vector<std::vector<std::byte>> buffers_;
    std::vector<TransferChunk> chunks_;
    std::vector<int> ranks_;
    std::vector<std::size_t> order_;  // slots in use, the oldest message first
};

std::size_t slots_each_way(const ExecOptions& options) {
    return (exchange_memory(options.memory) - ParcelPacker::memory) / chunk_size / 2;
}

TransferSchedule schedule_of(const ExchangeJob& job) { return {job.parcels, job.transfers, job.rank_of_host.size()}; }

class Exchange {
public:
    Exchange(const mpi::Comm& comm, const ExchangeJob& job, const ExecOptions& options)
        : comm_{comm},
          job_{job},
          options_{options},
          sends_{job.parcels, job.transfers, schedule_of(job).of_host(job.host, &Transfer::from)},
          receives_{job.parcels, job.transfers, schedule_of(job).of_host(job.host, &Transfer::to)},
          outgoing_{slots_each_way(options)},
          incoming_{slots_each_way(options)},
          inbox_{open_file(job.path, O_RDWR)} {}

    ExchangeResult run() {
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
    /// Does what can be done now; returns whether there was anything to do.
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
        const int rank = rank_of(job_.transfers[chunk->transfer].from);
        const auto bytes = incoming_.begin(*slot, *chunk, rank);
        incoming_.request(*slot) = mpi::start_receive(comm_, rank, mpi::Tag::chunk, bytes);
        receives_.advance(*chunk);
        return true;
    }

    bool send_next() {
        const auto chunk = sends_.next();
        const auto slot = outgoing_.free();
        if (!chunk || !slot || !may_read()) return false;
        const Transfer& transfer = job_.transfers[chunk->transfer];
        if (transfer.forwards && !received_.contains(range_of(*chunk))) return false;
        const int rank = rank_of(transfer.to);
        const auto bytes = outgoing_.begin(*slot, *chunk, rank);
        if (transfer.forwards)
            read_at(inbox_, range_of(*chunk).begin, bytes, job_.path);
        else
            job_.packer.pack(transfer.parcel, chunk->begin, bytes);
        outgoing_.request(*slot) = mpi::start_send(comm_, rank, mpi::Tag::chunk, bytes);
        done_.sent += bytes.size();
        ++done_.messages;
        if (options_.rate_limiter != nullptr) options_.rate_limiter->count_read(bytes.size());
        sends_.advance(*chunk);
        return true;
    }

    void keep(const TransferChunk& chunk, std::span<const std::byte> bytes) {
        write_at(inbox_, range_of(chunk).begin, bytes, job_.path);
        received_.add(range_of(chunk));
        if (options_.arrivals != nullptr) options_.arrivals->add(range_of(chunk));
        done_.received += bytes.size();
        if (options_.rate_limiter != nullptr) options_.rate_limiter->count_written(bytes.size());
        if (options_.progress) options_.progress(done_.received, job_.inbox.size(), "network");
    }

    bool may_read() const { return options_.rate_limiter == nullptr || options_.rate_limiter->may_read(); }
    bool may_write() const { return options_.rate_limiter == nullptr || options_.rate_limiter->may_write(); }

    int rank_of(std::uint32_t host) const { return job_.rank_of_host[host]; }

    /// Where the bytes of a chunk are in the inbox of this host, which receives or has received them.
    ByteRange range_of(const TransferChunk& chunk) const {
        const std::uint32_t parcel = job_.transfers[chunk.transfer].parcel;
        return {job_.inbox.place(parcel, chunk.begin), job_.inbox.place(parcel, chunk.end)};
    }

    void check_stopped() const {
        if (options_.cancelled == nullptr) return;
        check_not_stopped(options_.cancelled);
    }

    const mpi::Comm& comm_;
    const ExchangeJob& job_;
    const ExecOptions& options_;
    ChunkCursor sends_;
    ChunkCursor receives_;
    Slots outgoing_;
    Slots incoming_;
    Fd inbox_;
    ByteRanges received_;
    ExchangeResult done_;
};

}  // namespace

// More messages in progress keep NICs busy while a process waits for a CPU or a disk.
std::uint64_t exchange_memory(std::uint64_t memory) {
    return std::clamp(memory / 8, ParcelPacker::memory + 8 * chunk_size, ParcelPacker::memory + 32 * chunk_size);
}

ExchangeResult exchange(const mpi::Comm& comm, const ExchangeJob& job, const ExecOptions& options) {
    return Exchange{comm, job, options}.run();
}

}  // namespace tpx
