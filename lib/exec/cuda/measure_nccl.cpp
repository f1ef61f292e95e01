// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/cuda/nccl_library.hpp"
#include "lib/exec/cuda/runtime.hpp"
#include "lib/exec/measure_gpu.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <thread>

namespace tpx {
namespace {

using namespace cuda;
using Clock = std::chrono::steady_clock;

constexpr std::size_t first_size = std::size_t{4} << 20;  // that shows how fast it is
constexpr std::size_t largest_size = std::size_t{256} << 20;
constexpr int samples = 8;
constexpr double patience = 60;  // seconds until a peer that does not answer is given up

// One GPU's part in a NCCL communicator that does not block, so that a peer which fails is noticed.
class Member {
public:
    Member(const ncclUniqueId& id, int count, int place, int gpu) : count_{count}, place_{place} {
        check(cudaSetDevice(gpu), "cudaSetDevice");
        stream_ = make_stream();
        from_ = allocate_device(largest_size);
        to_ = allocate_device(largest_size);
        check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        ncclComm_t comm = nullptr;
        const ncclResult_t begun = nccl().init(&comm, count, id, place, &config);
        comm_.reset(comm);
        settle(begun, "ncclCommInitRankConfig");
    }

    /// Ends the communicator in an orderly way.
    void finish() {
        settle(nccl().finalize(comm_.get()), "ncclCommFinalize");
        nccl().destroy(comm_.release());
    }

    /// Bytes per second from place `a` to place `b`, which may be the same; zeros on all others.
    MeasuredValue pair(int a, int b) {
        return measure(place_ == a || place_ == b, [&](std::size_t size) {
            if (place_ == a)
                accept_nccl(nccl().send(from_.get(), size, ncclInt8, b, comm_.get(), stream_.get()), "ncclSend");
            if (place_ == b)
                accept_nccl(nccl().receive(to_.get(), size, ncclInt8, a, comm_.get(), stream_.get()), "ncclRecv");
        });
    }

    /// Bus bandwidth of all.
    MeasuredValue all_reduce() {
        MeasuredValue rate = measure(true, [&](std::size_t size) {
            accept_nccl(nccl().all_reduce(from_.get(), to_.get(), size / sizeof(float), ncclFloat, ncclSum, comm_.get(),
                                          stream_.get()),
                        "ncclAllReduce");
        });
        rate.median *= 2.0 * (count_ - 1) / count_;
        return rate;
    }

private:
    using Work = std::function<void(std::size_t size)>;
    using Comm = std::unique_ptr<ncclComm, AbortNccl>;

    // A first try determines the size of transfers that take about 10 ms; all members use the smallest size of all.
    MeasuredValue measure(bool takes_part, const Work& work) {
        double seconds = 0;
        if (takes_part) {
            timed(first_size, work);
            seconds = timed(first_size, work);
        }
        const double wanted = takes_part ? 0.01 * static_cast<double>(first_size) / seconds : largest_size;
        const auto bounded = static_cast<std::uint64_t>(std::clamp<double>(wanted, first_size, largest_size));
        const std::size_t size = least_of_all(bounded) / 4096 * 4096;
        std::vector<double> rates;
        for (int i = 0; takes_part && i < samples; ++i) rates.push_back(static_cast<double>(size) / timed(size, work));
        return summarize(rates);
    }

    double timed(std::size_t size, const Work& work) {
        const Event begin = make_event(), end = make_event();
        check(cudaEventRecord(begin.get(), stream_.get()), "cudaEventRecord");
        grouped([&] { work(size); });
        check(cudaEventRecord(end.get(), stream_.get()), "cudaEventRecord");
        wait_for(end);
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
        return std::max(1e-9, 1e-3 * double(milliseconds));
    }

    std::uint64_t least_of_all(std::uint64_t value) {
        const auto copy = [&](void* to, const void* from) {
            check(cudaMemcpyAsync(to, from, sizeof value, cudaMemcpyDefault, stream_.get()), "cudaMemcpyAsync");
        };
        const Event end = make_event();
        copy(from_.get(), &value);
        grouped([&] {
            accept_nccl(nccl().all_reduce(from_.get(), to_.get(), 1, ncclUint64, ncclMin, comm_.get(), stream_.get()),
                        "ncclAllReduce");
        });
        copy(&value, to_.get());
        check(cudaEventRecord(end.get(), stream_.get()), "cudaEventRecord");
        wait_for(end);
        return value;
    }

    void grouped(const std::function<void()>& calls) {
        NcclGroup group;
        calls();
        group.end();
        await("ncclGroupEnd");
    }

    void wait_for(const Event& event) {
        wait([&] {
            const cudaError_t code = cudaEventQuery(event.get());
            if (code != cudaErrorNotReady) check(code, "cudaEventQuery");
            if (code == cudaSuccess) return true;
            ncclResult_t state = ncclSuccess;
            accept_nccl(nccl().async_error(comm_.get(), &state), "ncclCommGetAsyncError");
            accept_nccl(state, "NCCL");
            return false;
        });
    }

    // What a call began is done when the communicator says so.
    void settle(ncclResult_t begun, const char* call) {
        accept_nccl(begun, call);
        await(call);
    }

    void await(const char* call) {
        wait([&] {
            ncclResult_t state = ncclSuccess;
            accept_nccl(nccl().async_error(comm_.get(), &state), "ncclCommGetAsyncError");
            accept_nccl(state, call);
            return state == ncclSuccess;
        });
    }

    static void wait(const std::function<bool()>& is_done) {
        const Clock::time_point start = Clock::now();
        while (!is_done()) {
            if (std::chrono::duration<double>(Clock::now() - start).count() > patience)
                throw failure("NCCL: a peer has not answered for {} s", patience);
            std::this_thread::yield();
        }
    }

    int count_, place_;
    Stream stream_;
    DeviceMemory from_, to_;
    Comm comm_;  // the last: it is aborted before what it uses goes
};

// "PAIR MEDIAN SPREAD" a line; all-reduce comes after the pairs.
std::string measure_member(Member& member, int place, const std::vector<std::pair<int, int>>& pairs) {
    std::string text;
    const auto add = [&](std::size_t number, const MeasuredValue& rate) {
        text += fmt::format("{} {} {}\n", number, rate.median, rate.spread);
    };
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        const MeasuredValue rate = member.pair(pairs[i].first, pairs[i].second);
        if (place == pairs[i].second) add(i, rate);
    }
    const MeasuredValue all = member.all_reduce();
    if (place == 0) add(pairs.size(), all);
    member.finish();
    return text;
}

}  // namespace

NcclRates measure_nccl(const mpi::Comm& comm, const std::vector<int>& members,
                       const std::vector<std::pair<int, int>>& pairs, int gpu) {
    const auto own = std::ranges::find(members, comm.rank());
    std::string id(sizeof(ncclUniqueId), '\0');
    mpi::all_or_none(comm, [&] {
        if (own == members.end()) return;
        if (own != members.begin()) return void(nccl());
        ncclUniqueId made{};
        const ncclResult_t code = nccl().get_unique_id(&made);
        if (code != ncclSuccess) throw failure("ncclGetUniqueId: {}", nccl().error_string(code));
        id.assign(made.internal, sizeof made.internal);
    });
    mpi::broadcast(comm, id, members.front());
    std::string text;
    mpi::all_or_none(comm, [&] {
        if (own == members.end()) return;
        ncclUniqueId shared{};
        std::ranges::copy(id, shared.internal);
        const int place = static_cast<int>(own - members.begin());
        Member member{shared, static_cast<int>(members.size()), place, gpu};
        text = measure_member(member, place, pairs);
    });
    NcclRates rates{.pairs = std::vector<MeasuredValue>(pairs.size()), .all_reduce = {}};
    for (const std::string& part : mpi::gather(comm, text)) {
        std::istringstream words{part};
        std::size_t number = 0;
        for (MeasuredValue rate; words >> number >> rate.median >> rate.spread;)
            (number < pairs.size() ? rates.pairs[number] : rates.all_reduce) = rate;
    }
    return rates;
}

}  // namespace tpx
