// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/device/run_rounds.hpp"

#include "lib/core/error.hpp"
#include "lib/core/memory_file.hpp"
#include "lib/exec/device/move_copies.hpp"
#include "lib/exec/gpu_memory.hpp"
#include "lib/exec/stop_signals.hpp"

#include <exception>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace tpx {
namespace {

constexpr std::size_t round_copies_at_once = 16384;

/// The staging of one endpoint of this host, and who copies there.
class Stage {
public:
    Stage(const Endpoint& endpoint, const StagingNeed& need) : gpu_{endpoint.gpu} {
        if (gpu_ < 0) {
            host_sent_.resize(need.sent);
            host_received_.resize(need.received);
            return;
        }
        gpu_sent_ = std::make_unique<GpuMemory>(gpu_, need.sent);
        gpu_received_ = std::make_unique<GpuMemory>(gpu_, need.received);
        gpu_overflow_ = std::make_unique<GpuMemory>(gpu_, sizeof(std::uint32_t));
        gpu_overflow_->clear();
        copier_ = std::make_unique<GpuCopier>(gpu_);
    }

    std::byte* sent() { return gpu_ < 0 ? host_sent_.data() : gpu_sent_->data(); }
    std::byte* received() { return gpu_ < 0 ? host_received_.data() : gpu_received_->data(); }
    std::uint32_t* overflow() {
        return gpu_ < 0 ? &host_overflow_ : reinterpret_cast<std::uint32_t*>(gpu_overflow_->data());
    }
    void run(const CopyBatch& batch) { gpu_ < 0 ? run_on_host(batch) : copier_->run(batch); }

    /// Throws Error if a cast has made a finite value infinite.
    void check_casts() {
        std::uint32_t value = host_overflow_;
        if (gpu_ >= 0) {
            const Fd flag = make_memory_file("tpx-overflow", sizeof value);
            copier_->download(*gpu_overflow_, flag);
            read_at(flag, 0, std::as_writable_bytes(std::span{&value, 1}), "overflow");
        }
        if (value == 0) return;
        if (gpu_ >= 0) throw failure("GPU {}: a cast makes a finite value infinite", gpu_);
        throw failure("a cast makes a finite value infinite");
    }

private:
    int gpu_;
    std::vector<std::byte> host_sent_, host_received_;
    std::uint32_t host_overflow_ = 0;
    std::unique_ptr<GpuMemory> gpu_sent_, gpu_received_, gpu_overflow_;
    std::unique_ptr<GpuCopier> copier_;  // the last: it waits for copies to the memory
};

class RoundsRunner {
public:
    RoundsRunner(const RoundsJob& job, std::span<const Round> rounds, const RoundsMemory& memory, const RoundsRun& run)
        : job_{job}, rounds_{rounds}, memory_{memory}, run_{run} {}

    void run() {
        agreed([&] {
            run_.transport.require(rounds_);
            make_stages();
            if (!rounds_.empty()) pack(rounds_.front());
        });
        for (std::size_t k = 0; k < rounds_.size(); ++k) {
            agreed([&] {
                exchange(rounds_[k]);
                unpack(rounds_[k]);
                if (k + 1 < rounds_.size()) pack(rounds_[k + 1]);
                if (run_.cancelled != nullptr) check_not_stopped(run_.cancelled);
            });
            if (run_.progress) run_.progress(k + 1, rounds_.size());
        }
        agreed([&] {
            for (auto& [endpoint, stage] : stages_) stage.check_casts();
        });
    }

private:
    /// All ranks fail if one does, and none begins the next exchange before all are ready for it.
    template <class Body>
    void agreed(Body&& body) {
        std::exception_ptr error;
        try {
            body();
        } catch (...) {
            error = std::current_exception();
        }
        mpi::agree_on(run_.comm, error);
    }

    bool is_here(const Endpoint& endpoint) const { return endpoint.host == run_.host; }

    void make_stages() {
        for (const Round& round : rounds_)
            for (const RoundMessage& message : round)
                for (const Endpoint& endpoint : {message.from, message.to})
                    if (is_here(endpoint) && !stages_.contains(endpoint))
                        stages_.try_emplace(endpoint, endpoint, staging_of(rounds_, endpoint));
    }

    void pack(const Round& round) {
        for (auto& [endpoint, stage] : stages_) {
            CopyBatch batch;
            for (const RoundMessage& message : round)
                if (message.from == endpoint) {
                    for (const RemoteBox& part : message.boxes)
                        add_packing(batch, part, stage.sent() + message.sent_at + part.offset, stage);
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
                        add_unpacking(batch, part, stage.received() + message.received_at + part.offset, stage);
                }
            if (batch.copies() > 0) stage.run(batch);
        }
    }

    void add_packing(CopyBatch& batch, const RemoteBox& part, std::byte* to, Stage& stage) const {
        const Piece& piece = job_.source.pieces[job_.moves[part.move].source];
        const DType dtype = job_.source.tensors[piece.tensor].dtype;
        const BoxPlace place = place_of(piece, part.box, itemsize(dtype));
        batch.add(sizes(part.box), memory_.sources[piece.file] + place.offset, place.strides, dtype, to,
                  staged(part.box, dtype), dtype);
        run_if_full(batch, stage, nullptr);
    }

    void add_unpacking(CopyBatch& batch, const RemoteBox& part, const std::byte* from, Stage& stage) const {
        const Move& move = job_.moves[part.move];
        const Piece& piece = job_.target.pieces[move.target];
        const DType was = job_.source.tensors[job_.source.pieces[move.source].tensor].dtype;
        const DType becomes = job_.target.tensors[piece.tensor].dtype;
        const BoxPlace place = place_of(piece, part.box, itemsize(becomes));
        batch.add(sizes(part.box), from, staged(part.box, was), was, memory_.targets[piece.file] + place.offset,
                  place.strides, becomes);
        run_if_full(batch, stage, stage.overflow());
    }

    static void run_if_full(CopyBatch& batch, Stage& stage, std::uint32_t* overflow) {
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
            if (is_here(from)) sent.push_back({from, to, {stages_.at(from).sent() + message.sent_at, message.size}});
            if (is_here(to))
                received.push_back({from, to, {stages_.at(to).received() + message.received_at, message.size}});
        }
        run_.transport.exchange(sent, received);
    }

    const RoundsJob& job_;
    std::span<const Round> rounds_;
    const RoundsMemory& memory_;
    const RoundsRun& run_;
    std::map<Endpoint, Stage> stages_;
};

}  // namespace

void run_rounds(const RoundsJob& job, std::span<const Round> rounds, const RoundsMemory& memory, const RoundsRun& run) {
    RoundsRunner{job, rounds, memory, run}.run();
}

}  // namespace tpx
