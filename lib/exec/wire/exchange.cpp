// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/wire/exchange.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/write_file.hpp"
#include "lib/exec/arrivals.hpp"
#include "lib/exec/byte_ranges.hpp"
#include "lib/exec/pace.hpp"
#include "lib/exec/signals.hpp"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace tpx {
namespace {

constexpr std::uint64_t chunk_size = std::uint64_t{1} << 19;

/// A part of a transfer that is one message.
struct Chunk {
    std::uint32_t transfer = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

/// Bytes of a transfer that have one turn.
struct Segment {
    std::uint64_t step = 0;
    std::uint32_t turn = 0;  // in the step
    Chunk bytes;
};

/// The order of all transfers. What goes from one host to another is cut into segments, and in each step every such
/// pair sends as large a share of its segments as any other one. So the parts of a tile, which come from several hosts,
/// arrive together, and the tile is written while other bytes still travel. In a turn of a step, each host sends to at
/// most one host and receives from at most one.
class Turns {
public:
    Turns(const ExchangeJob& job) : job_{job} {
        const auto pair = [](const Transfer& transfer) { return std::pair{transfer.from, transfer.to}; };
        for (const Transfer& transfer : job.transfers) {
            std::uint64_t& bytes = bytes_[pair(transfer)];
            before_.push_back(bytes);
            bytes += transfer.end - transfer.begin;
            in_turns_ = in_turns_ && !transfer.forwards;
        }
        for (const auto& [hosts, bytes] : bytes_) steps_ = std::max(steps_, segments(bytes));
    }

    /// The segments of the transfers whose `side` is the host of the job, in their order.
    std::vector<Segment> of_host(std::uint32_t Transfer::*side) const {
        std::vector<Segment> own;
        for (std::uint32_t k = 0; k < job_.transfers.size(); ++k)
            if (job_.transfers[k].*side == job_.host) cut(k, own);
        // What is forwarded must have come before, as it has in the order of the transfers.
        if (in_turns_)
            std::ranges::stable_sort(own, {}, [](const Segment& segment) {
                return std::tuple{segment.step, segment.turn, segment.bytes.transfer};
            });
        return own;
    }

private:
    static constexpr std::uint64_t segment_size = std::uint64_t{1} << 19;

    static std::uint64_t segments(std::uint64_t bytes) { return (bytes + segment_size - 1) / segment_size; }

    void cut(std::uint32_t number, std::vector<Segment>& segments_of_host) const {
        const Transfer& transfer = job_.transfers[number];
        const auto hosts = static_cast<std::uint32_t>(job_.rank_of_host.size());
        const std::uint32_t turn = (transfer.to + hosts - transfer.from) % hosts;
        const std::uint64_t count = segments(bytes_.at({transfer.from, transfer.to}));
        for (std::uint64_t begin = transfer.begin; begin < transfer.end;) {
            const std::uint64_t segment = (before_[number] + begin - transfer.begin) / segment_size;
            const std::uint64_t end = std::min(transfer.end, end_of(number, segment));
            if (end > begin) segments_of_host.push_back({segment * steps_ / count, turn, {number, begin, end}});
            begin = end;
        }
    }

    /// Where a segment of a pair ends in a transfer, after an element.
    std::uint64_t end_of(std::uint32_t number, std::uint64_t segment) const {
        const Transfer& transfer = job_.transfers[number];
        const Parcel& parcel = job_.parcels.parcels[transfer.parcel];
        const std::uint64_t end = transfer.begin + (segment + 1) * segment_size - before_[number];
        return parcel.align(end + parcel.element - 1);
    }

    const ExchangeJob& job_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> bytes_;  // by hosts, from and to
    std::vector<std::uint64_t> before_;  // by transfer: bytes of the same hosts in earlier transfers
    std::uint64_t steps_ = 1;
    bool in_turns_ = true;
};

/// The chunks of some segments, one after the other.
class Course {
public:
    Course(const Parcels& parcels, std::span<const Transfer> transfers, std::vector<Segment> segments)
        : parcels_{parcels}, transfers_{transfers}, segments_{std::move(segments)} {}

    /// The next chunk; nothing when all were taken.
    std::optional<Chunk> next() const {
        if (segment_ == segments_.size()) return std::nullopt;
        Chunk chunk = segments_[segment_].bytes;
        const Parcel& parcel = parcels_.parcels[transfers_[chunk.transfer].parcel];
        // A message ends where an element does; elements are far smaller.
        chunk.begin += done_;
        chunk.end = std::min(chunk.end, parcel.align(chunk.begin + chunk_size));
        return chunk;
    }

    void take(const Chunk& chunk) {
        done_ += chunk.end - chunk.begin;
        if (chunk.end < segments_[segment_].bytes.end) return;
        ++segment_;
        done_ = 0;
    }

private:
    const Parcels& parcels_;
    std::span<const Transfer> transfers_;
    std::vector<Segment> segments_;
    std::size_t segment_ = 0;
    std::uint64_t done_ = 0;  // of the segment
};

/// Messages under way in one direction, each with its buffer.
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
    std::span<std::byte> begin(std::size_t slot, const Chunk& chunk, int rank) {
        chunks_[slot] = chunk;
        ranks_[slot] = rank;
        order_.push_back(slot);
        return std::span{buffers_[slot]}.first(chunk.end - chunk.begin);
    }

    /// The slots whose messages have ended since the last call. Of each rank only the oldest message is tested until it
    /// has ended: every test of an unfinished message makes MPI go through all of its work.
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
    const Chunk& chunk(std::size_t slot) const { return chunks_[slot]; }
    mpi::Request& request(std::size_t slot) { return requests_[slot]; }

private:
    std::vector<mpi::Request> requests_;
    std::vector<std::vector<std::byte>> buffers_;
    std::vector<Chunk> chunks_;
    std::vector<int> ranks_;
    std::vector<std::size_t> order_;  // slots in use, the oldest message first
};

std::size_t slots_each_way(const ExecOptions& options) {
    return (exchange_memory(options.memory) - Packer::memory) / chunk_size / 2;
}

class Exchange {
public:
    Exchange(const mpi::Comm& comm, const ExchangeJob& job, const ExecOptions& options)
        : comm_{comm},
          job_{job},
          options_{options},
          sends_{job.parcels, job.transfers, Turns{job}.of_host(&Transfer::from)},
          receives_{job.parcels, job.transfers, Turns{job}.of_host(&Transfer::to)},
          outgoing_{slots_each_way(options)},
          incoming_{slots_each_way(options)},
          inbox_{open_file(job.path, O_RDWR)} {}

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
        const int rank = rank_of(job_.transfers[chunk->transfer].from);
        const auto bytes = incoming_.begin(*slot, *chunk, rank);
        incoming_.request(*slot) = mpi::start_receive(comm_, rank, mpi::Tag::chunk, bytes);
        receives_.take(*chunk);
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
        if (options_.pace != nullptr) options_.pace->count_read(bytes.size());
        sends_.take(*chunk);
        return true;
    }

    void keep(const Chunk& chunk, std::span<const std::byte> bytes) {
        write_at(inbox_, range_of(chunk).begin, bytes, job_.path);
        received_.add(range_of(chunk));
        if (options_.arrivals != nullptr) options_.arrivals->add(range_of(chunk));
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

// More messages under way keep NICs busy while a process waits for a processor or a disk.
std::uint64_t exchange_memory(std::uint64_t memory) {
    return std::clamp(memory / 8, Packer::memory + 8 * chunk_size, Packer::memory + 32 * chunk_size);
}

Exchanged exchange(const mpi::Comm& comm, const ExchangeJob& job, const ExecOptions& options) {
    return Exchange{comm, job, options}.run();
}

}  // namespace tpx
