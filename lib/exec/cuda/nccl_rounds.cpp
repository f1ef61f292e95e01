// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/device/nccl_rounds.hpp"

#include "lib/core/error.hpp"
#include "lib/exec/cuda/nccl_library.hpp"
#include "lib/exec/cuda/runtime.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

// The communicator does not block, so that a process never waits inside NCCL for a peer that has failed, which NCCL
// alone may not notice. A rank that fails sends a message to all other ranks by MPI; ranks look for such messages while
// they wait.
namespace tpx {
namespace {

using namespace cuda;
using RoundClock = std::chrono::steady_clock;

/// A GPU of this host.
struct RoundGpu {
    Stream stream;
    Event done;
    std::unique_ptr<ncclComm, AbortNccl> comm;  // the last member: it is aborted before its stream is destroyed
};

class NcclRounds : public RoundTransport {
public:
    NcclRounds(const NcclSettings& settings, std::vector<Endpoint> members, RoundTransport& others)
        : settings_{settings}, members_{std::move(members)}, others_{others} {}

    bool is_in_gpu_memory(const Endpoint& from, const Endpoint& to) const override {
        return from.gpu >= 0 && to.gpu >= 0;
    }

    /// Collective.
    void connect() {
        std::string bytes(sizeof(ncclUniqueId), '\0');
        const int root = members_.front().host;
        mpi::all_or_none(settings_.comm, [&] {
            if (settings_.host != root) return;
            ncclUniqueId made{};
            accept_nccl(nccl().get_unique_id(&made), "ncclGetUniqueId");
            bytes.assign(made.internal, sizeof made.internal);
        });
        mpi::broadcast(settings_.comm, bytes, root);
        ncclUniqueId id{};
        std::ranges::copy(bytes, id.internal);
        agree_on_exchange(settings_.comm, [&] { guarded([&] { join(id); }); });
    }

    // The other transport comes first: there, other ranks would wait for a rank that has failed in NCCL.
    void exchange(std::span<const OutgoingMessage> sent, std::span<const IncomingMessage> received) override {
        const auto by_nccl = [this](const auto& one) { return is_in_gpu_memory(one.from, one.to); };
        std::vector<OutgoingMessage> host_sent{sent.begin(), sent.end()};
        std::vector<IncomingMessage> host_received{received.begin(), received.end()};
        std::erase_if(host_sent, by_nccl);
        std::erase_if(host_received, by_nccl);
        others_.exchange(host_sent, host_received);
        guarded([&] { carry(sent, received); });
    }

private:
    int place_of(const Endpoint& endpoint) const {
        return static_cast<int>(std::ranges::lower_bound(members_, endpoint) - members_.begin());
    }

    template <class Body>
    static void on_gpu(int gpu, Body&& body) {
        in_context([&] { return fmt::format("GPU {}", gpu); },
                   [&] {
                       check(cudaSetDevice(gpu), "cudaSetDevice");
                       body();
                   });
    }

    void join(const ncclUniqueId& id) {
        for (const Endpoint& member : members_)
            if (member.host == settings_.host)
                on_gpu(member.gpu, [&] { gpus_[member.gpu] = RoundGpu{make_stream(), make_event(), nullptr}; });
        if (gpus_.empty()) return;
        NcclGroup group;
        for (auto& [gpu, own] : gpus_)
            on_gpu(gpu, [&, number = gpu, member = &own] {
                ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                config.blocking = 0;
                ncclComm_t comm = nullptr;
                const ncclResult_t code = nccl().init(&comm, static_cast<int>(members_.size()), id,
                                                      place_of({settings_.host, number}), &config);
                member->comm.reset(comm);
                accept_nccl(code, "ncclCommInitRankConfig");
            });
        group.end();
        settle("ncclCommInitRankConfig");
    }

    void carry(std::span<const OutgoingMessage> sent, std::span<const IncomingMessage> received) {
        std::set<int> used;
        NcclGroup group;
        for (const OutgoingMessage& one : sent)
            if (is_in_gpu_memory(one.from, one.to)) {
                used.insert(one.from.gpu);
                on_gpu(one.from.gpu, [&] {
                    const RoundGpu& own = gpus_.at(one.from.gpu);
                    accept_nccl(nccl().send(one.bytes.data(), one.bytes.size(), ncclInt8, place_of(one.to),
                                            own.comm.get(), own.stream.get()),
                                "ncclSend");
                });
            }
        for (const IncomingMessage& one : received)
            if (is_in_gpu_memory(one.from, one.to)) {
                used.insert(one.to.gpu);
                on_gpu(one.to.gpu, [&] {
                    const RoundGpu& own = gpus_.at(one.to.gpu);
                    accept_nccl(nccl().receive(one.bytes.data(), one.bytes.size(), ncclInt8, place_of(one.from),
                                               own.comm.get(), own.stream.get()),
                                "ncclRecv");
                });
            }
        group.end();
        settle("NCCL");
        for (const int gpu : used)
            on_gpu(gpu, [&] {
                const RoundGpu& own = gpus_.at(gpu);
                check(cudaEventRecord(own.done.get(), own.stream.get()), "cudaEventRecord");
            });
        wait([&] {
            check_async("NCCL");
            return std::ranges::all_of(used, [&](int gpu) { return has_done(gpu); });
        });
    }

    bool has_done(int gpu) const {
        bool is_done = false;
        on_gpu(gpu, [&] {
            const cudaError_t code = cudaEventQuery(gpus_.at(gpu).done.get());
            if (code != cudaErrorNotReady) check(code, "cudaEventQuery");
            is_done = code == cudaSuccess;
        });
        return is_done;
    }

    /// Waits until NCCL has started all calls.
    void settle(const char* call) {
        wait([&] { return check_async(call); });
    }

    /// Whether no call is in progress. Throws Error if one of them has failed.
    bool check_async(const char* call) {
        bool is_idle = true;
        for (const auto& [gpu, own] : gpus_)
            on_gpu(gpu, [&, comm = own.comm.get()] {
                ncclResult_t state = ncclSuccess;
                accept_nccl(nccl().async_error(comm, &state), "ncclCommGetAsyncError");
                accept_nccl(state, call);
                is_idle = is_idle && state == ncclSuccess;
            });
        return is_idle;
    }

    void wait(const std::function<bool()>& is_done) {
        const RoundClock::time_point start = RoundClock::now();
        while (!is_done()) {
            check_others();
            mpi::call_hook(false);
            if (RoundClock::now() - start > settings_.patience)
                throw failure("NCCL: no progress for {} s (--patience)", settings_.patience.count());
            std::this_thread::yield();
        }
    }

    /// Throws OtherRankFailed if a message says that another rank has failed.
    void check_others() {
        const auto rank = mpi::find_message(settings_.comm, mpi::Tag::stop);
        if (!rank) return;
        std::byte ignored{};
        mpi::receive(settings_.comm, *rank, mpi::Tag::stop, {&ignored, 1});
        throw OtherRankFailed{failure("rank {} has failed", *rank)};
    }

    /// Waits briefly for the message of a rank that has failed, which may have made a call fail here. Throws
    /// OtherRankFailed if it arrives.
    void await_cause() {
        constexpr std::chrono::seconds most{1};
        for (const auto start = RoundClock::now(); RoundClock::now() - start < most;) {
            check_others();
            mpi::call_hook(false);
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
    }

    void notify_others() const {
        const std::byte stop{1};
        for (int rank = 0; rank < settings_.comm.size(); ++rank)
            if (rank != settings_.comm.rank()) mpi::send(settings_.comm, rank, mpi::Tag::stop, {&stop, 1});
    }

    /// If `body` fails on this rank, notifies all others, and aborts what is in progress, in this order: the others
    /// then know the cause before NCCL reports to them that a peer is gone.
    template <class Body>
    void guarded(Body&& body) {
        try {
            try {
                body();
            } catch (const OtherRankFailed&) {
                throw;
            } catch (...) {
                await_cause();
                notify_others();
                throw;
            }
        } catch (...) {
            gpus_.clear();
            throw;
        }
    }

    NcclSettings settings_;
    std::vector<Endpoint> members_;  // sorted: the place of a GPU is its rank in NCCL
    RoundTransport& others_;
    std::map<int, RoundGpu> gpus_;  // of this host, by number
};

}  // namespace

std::string nccl_problem() {
    try {
        nccl();
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

std::unique_ptr<RoundTransport> make_nccl_rounds(const NcclSettings& settings, std::span<const Round> rounds,
                                                 RoundTransport& others) {
    std::set<Endpoint> members;
    for (const Round& round : rounds)
        for (const RoundMessage& message : round)
            if (message.from.gpu >= 0 && message.to.gpu >= 0) members.insert({message.from, message.to});
    auto made = std::make_unique<NcclRounds>(settings, std::vector<Endpoint>{members.begin(), members.end()}, others);
    if (!members.empty()) made->connect();
    return made;
}

}  // namespace tpx
