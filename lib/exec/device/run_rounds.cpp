// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/device/run_rounds.hpp"

#include "lib/core/error.hpp"
#include "lib/core/memory_file.hpp"
#include "lib/exec/device/move_copies.hpp"
#include "lib/exec/gpu_memory.hpp"
#include "lib/exec/overflows.hpp"
#include "lib/exec/stop_signals.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace tpx {
namespace {

constexpr std::size_t round_copies_at_once = 16384;

/// The memory that messages of one endpoint are in.
enum class StagingMemory { host, gpu };

/// The staging of one endpoint of this host, and its copier. A GPU can have staging in its own memory and in pinned
/// host memory.
class Staging {
public:
    Staging(const Endpoint& endpoint, const StagingNeed& in_host, const StagingNeed& in_gpu) : gpu_{endpoint.gpu} {
        if (gpu_ < 0) {
            host_sent_.resize(in_host.sent);
            host_received_.resize(in_host.received);
            return;
        }
        if (in_host.sent > 0) pinned_sent_ = std::make_unique<PinnedBuffer>(gpu_, in_host.sent);
        if (in_host.received > 0) pinned_received_ = std::make_unique<PinnedBuffer>(gpu_, in_host.received);
        if (in_gpu.sent > 0) gpu_sent_ = std::make_unique<GpuMemory>(gpu_, in_gpu.sent);
        if (in_gpu.received > 0) gpu_received_ = std::make_unique<GpuMemory>(gpu_, in_gpu.received);
        pinned_overflow_ = std::make_unique<PinnedBuffer>(gpu_, sizeof(std::uint32_t));
        *overflow() = 0;
        copier_ = std::make_unique<GpuCopier>(gpu_);
    }

    std::byte* sent(StagingMemory memory) {
        if (gpu_ < 0) return host_sent_.data();
        return memory == StagingMemory::gpu ? gpu_sent_->data() : pinned_sent_->data();
    }
    std::byte* received(StagingMemory memory) {
        if (gpu_ < 0) return host_received_.data();
        return memory == StagingMemory::gpu ? gpu_received_->data() : pinned_received_->data();
    }
    std::uint32_t* overflow() {
        return gpu_ < 0 ? &host_overflow_ : reinterpret_cast<std::uint32_t*>(pinned_overflow_->data());
    }
    void run(const CopyBatch& batch) { gpu_ < 0 ? run_on_host(batch) : copier_->run(batch); }

    /// A copy of bytes of received messages in host memory.
    std::vector<std::byte> received_bytes(StagingMemory memory, std::uint64_t offset, std::uint64_t size) {
        std::vector<std::byte> bytes(size);
        if (gpu_ < 0 || memory == StagingMemory::host) {
            std::copy_n(received(memory) + offset, size, bytes.data());
            return bytes;
        }
        const Fd file = make_memory_file("tpx-received", offset + size);
        copier_->download(*gpu_received_, offset, offset + size, file);
        read_at(file, offset, bytes, "received bytes");
        return bytes;
    }

private:
    int gpu_;
    std::vector<std::byte> host_sent_, host_received_;
    std::uint32_t host_overflow_ = 0;
    std::unique_ptr<PinnedBuffer> pinned_sent_, pinned_received_, pinned_overflow_;
    std::unique_ptr<GpuMemory> gpu_sent_, gpu_received_;
    std::unique_ptr<GpuCopier> copier_;  // the last: it waits for copies to the memory
};

class RoundsRunner {
public:
    RoundsRunner(const RoundsJob& job, std::span<const Round> rounds, const RoundsMemory& memory, const RoundsRun& run)
        : job_{job}, rounds_{rounds}, memory_{memory}, run_{run} {}

    void run() {
        agree_on_exchange(run_.comm, [&] {
            make_stages();
            if (!rounds_.empty()) pack(rounds_.front());
        });
        for (std::size_t k = 0; k < rounds_.size(); ++k) {
            agree_on_exchange(run_.comm, [&] {
                exchange(rounds_[k]);
                unpack(rounds_[k]);
                if (k + 1 < rounds_.size()) pack(rounds_[k + 1]);
                if (run_.cancelled != nullptr) check_not_stopped(run_.cancelled);
            });
            if (run_.progress) run_.progress(k + 1, rounds_.size());
        }
        overflows_.refuse(run_.comm, job_.source, run_.files);
    }

private:
    bool is_here(const Endpoint& endpoint) const { return endpoint.host == run_.host; }

    StagingMemory memory_of(const RoundMessage& message) const {
        return run_.transport.is_in_gpu_memory(message.from, message.to) ? StagingMemory::gpu : StagingMemory::host;
    }

    void make_stages() {
        for (const Endpoint& endpoint : endpoints_of(rounds_)) {
            if (!is_here(endpoint)) continue;
            const auto need = [&](StagingMemory memory) {
                return staging_of(rounds_, endpoint,
                                  [&](const RoundMessage& message) { return memory_of(message) == memory; });
            };
            stages_.try_emplace(endpoint, endpoint, need(StagingMemory::host), need(StagingMemory::gpu));
        }
    }

    void pack(const Round& round) {
        for (auto& [endpoint, stage] : stages_) {
            CopyBatch batch;
            for (const RoundMessage& message : round)
                if (message.from == endpoint) {
                    for (const RemoteBox& part : message.boxes)
                        add_packing(batch, part, stage.sent(memory_of(message)) + message.sent_at + part.offset, stage);
                }
            if (batch.copies() > 0) stage.run(batch);
        }
    }

    void unpack(const Round& round) {
        for (auto& [endpoint, stage] : stages_) {
            CopyBatch batch{stage.overflow()};
            for (const RoundMessage& message : round)
                if (message.to == endpoint) {
                    for (const RemoteBox& part : message.boxes)
                        add_unpacking(batch, part,
                                      stage.received(memory_of(message)) + message.received_at + part.offset, stage);
                }
            if (batch.copies() > 0) stage.run(batch);
            if (*stage.overflow() != 0) find_overflows(round, endpoint, stage);
        }
    }

    /// Records the values of a round that casts made infinite.
    void find_overflows(const Round& round, const Endpoint& endpoint, Staging& stage) {
        for (const RoundMessage& message : round) {
            if (message.to != endpoint) continue;
            for (const RemoteBox& part : message.boxes) {
                const Move& move = job_.moves[part.move];
                const Piece& piece = job_.source.pieces[move.source];
                const DType was = job_.source.tensors[piece.tensor].dtype;
                const DType becomes = job_.target.tensors[job_.target.pieces[move.target].tensor].dtype;
                if (was == becomes) continue;
                const auto bytes = stage.received_bytes(memory_of(message), message.received_at + part.offset,
                                                        static_cast<std::uint64_t>(volume(part.box) * itemsize(was)));
                overflows_.add(piece, part.box, bytes.data(), staged(part.box, was), was, becomes);
            }
        }
        *stage.overflow() = 0;
    }

    void add_packing(CopyBatch& batch, const RemoteBox& part, std::byte* to, Staging& stage) const {
        const Piece& piece = job_.source.pieces[job_.moves[part.move].source];
        const DType dtype = job_.source.tensors[piece.tensor].dtype;
        const BoxPlace place = place_of(piece, part.box, itemsize(dtype));
        batch.add(sizes(part.box), memory_.sources[piece.file] + place.offset, place.strides, dtype, to,
                  staged(part.box, dtype), dtype);
        run_if_full(batch, stage, nullptr);
    }

    void add_unpacking(CopyBatch& batch, const RemoteBox& part, const std::byte* from, Staging& stage) const {
        const Move& move = job_.moves[part.move];
        const Piece& piece = job_.target.pieces[move.target];
        const DType was = job_.source.tensors[job_.source.pieces[move.source].tensor].dtype;
        const DType becomes = job_.target.tensors[piece.tensor].dtype;
        const BoxPlace place = place_of(piece, part.box, itemsize(becomes));
        batch.add(sizes(part.box), from, staged(part.box, was), was, memory_.targets[piece.file] + place.offset,
                  place.strides, becomes);
        run_if_full(batch, stage, stage.overflow());
    }

    static void run_if_full(CopyBatch& batch, Staging& stage, std::uint32_t* overflow) {
        if (batch.copies() < round_copies_at_once) return;
        stage.run(batch);
        batch = CopyBatch{overflow};
    }

    static Strides staged(const Box& box, DType dtype) {
        Strides strides = row_major(sizes(box));
        for (Index& stride : strides) stride *= itemsize(dtype);
        return strides;
    }

    void exchange(const Round& round) {
        std::vector<OutgoingMessage> sent;
        std::vector<IncomingMessage> received;
        for (const RoundMessage& message : round) {
            const auto& [from, to] = std::pair{message.from, message.to};
            const StagingMemory memory = memory_of(message);
            if (is_here(from))
                sent.push_back({from, to, {stages_.at(from).sent(memory) + message.sent_at, message.size}});
            if (is_here(to))
                received.push_back({from, to, {stages_.at(to).received(memory) + message.received_at, message.size}});
        }
        run_.transport.exchange(sent, received);
    }

    const RoundsJob& job_;
    std::span<const Round> rounds_;
    const RoundsMemory& memory_;
    const RoundsRun& run_;
    std::map<Endpoint, Staging> stages_;
    Overflows overflows_;
};

}  // namespace

void run_rounds(const RoundsJob& job, std::span<const Round> rounds, const RoundsMemory& memory, const RoundsRun& run) {
    RoundsRunner{job, rounds, memory, run}.run();
}

}  // namespace tpx
