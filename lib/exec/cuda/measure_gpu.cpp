// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/measure_gpu.hpp"

#include "lib/exec/cuda/nvml.hpp"
#include "lib/exec/cuda/runtime.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <span>
#include <string_view>

namespace tpx {
namespace {

using namespace cuda;

constexpr std::size_t transfer = std::size_t{64} << 20;
constexpr std::size_t copied = std::size_t{256} << 20;  // larger than the caches of GPUs

std::string bus_of(int gpu) {
    std::array<char, 32> bus{};
    check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), gpu), "cudaDeviceGetPCIBusId");
    std::string text = bus.data();
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

// Lets GPU `from`, which is the current one, reach the memory of `to`, if the two can.
void enable_peer_access(int from, int to) {
    int possible = 0;
    check(cudaDeviceCanAccessPeer(&possible, from, to), "cudaDeviceCanAccessPeer");
    if (possible == 0) return;
    const cudaError_t code = cudaDeviceEnablePeerAccess(to, 0);
    if (code == cudaErrorPeerAccessAlreadyEnabled)
        cudaGetLastError();
    else
        check(code, "cudaDeviceEnablePeerAccess");
}

// The message of the owner of memory to the rank that will write to it.
struct Offer {
    int valid = 0;
    cudaIpcMemHandle_t handle{};
    std::array<char, 200> reason{};  // why it is not valid
};

// Opens what another process has offered, for as long as it lives.
class Mapped {
public:
    explicit Mapped(const cudaIpcMemHandle_t& handle) {
        check(cudaIpcOpenMemHandle(&memory_, handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
    }
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;
    ~Mapped() { cudaIpcCloseMemHandle(memory_); }

    void* get() const { return memory_; }

private:
    void* memory_ = nullptr;
};

// Gives memory to rank `peer` until that says that it is done with it.
void lend_memory(const mpi::Comm& comm, int peer, int gpu) {
    Offer offer;
    DeviceMemory memory;
    std::optional<Error> fault;
    try {
        check(cudaSetDevice(gpu), "cudaSetDevice");
        memory = allocate_device(transfer);
        check(cudaIpcGetMemHandle(&offer.handle, memory.get()), "cudaIpcGetMemHandle");
        check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        offer.valid = 1;
    } catch (const Error& error) {
        fault = error;
        std::string_view{error.what()}.copy(offer.reason.data(), offer.reason.size() - 1);
    }
    mpi::send_busy(comm, peer, mpi::Tag::offer, std::as_bytes(std::span{&offer, 1}));
    if (fault) throw Error{*fault};
    int done = 0;
    mpi::receive_busy(comm, peer, mpi::Tag::offer, std::as_writable_bytes(std::span{&done, 1}));
    if (done == 0) throw failure("rank {} cannot reach memory of this one's GPU", peer);
}

MeasuredValue write_to_peer(const Offer& offer, int gpu, double seconds) {
    if (offer.valid == 0) throw failure("the other process: {}", offer.reason.data());
    check(cudaSetDevice(gpu), "cudaSetDevice");
    const DeviceMemory own = allocate_device(transfer);
    const Mapped mapped{offer.handle};
    const Stream stream = make_stream();
    return rate_of(stream, transfer, seconds, [&] {
        check(cudaMemcpyAsync(mapped.get(), own.get(), transfer, cudaMemcpyDefault, stream.get()), "cudaMemcpyAsync");
    });
}

}  // namespace

CudaGpus find_cuda_gpus() {
    CudaGpus found;
    int count = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess || count == 0) {
        cudaGetLastError();
        found.reason = code == cudaSuccess ? "CUDA sees no GPU" : cudaGetErrorString(code);
        return found;
    }
    std::vector<std::string> buses;
    try {
        for (int gpu = 0; gpu < count; ++gpu) {
            cudaDeviceProp properties{};
            check(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
            buses.push_back(bus_of(gpu));
            found.gpus.push_back({properties.name, buses.back(), 0});
        }
    } catch (const Error& error) {
        return {.gpus = {}, .reason = error.what()};
    }
    const std::vector<int> links = count_nvlinks(buses);
    for (std::size_t i = 0; i < links.size(); ++i) found.gpus[i].nvlinks = links[i];
    return found;
}

GpuRates measure_gpu(int gpu, double seconds) {
    check(cudaSetDevice(gpu), "cudaSetDevice");
    const PinnedMemory host = allocate_pinned(transfer);
    const DeviceMemory device = allocate_device(copied), other = allocate_device(copied);
    const Stream stream = make_stream();
    const auto rate = [&](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
        return rate_of(stream, bytes, seconds / 3,
                       [&] { check(cudaMemcpyAsync(to, from, bytes, kind, stream.get()), "cudaMemcpyAsync"); });
    };
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    GpuRates rates;
    rates.to_device = rate(device.get(), host.get(), transfer, cudaMemcpyHostToDevice);
    rates.from_device = rate(host.get(), device.get(), transfer, cudaMemcpyDeviceToHost);
    rates.copy = rate(other.get(), device.get(), copied, cudaMemcpyDeviceToDevice);
    return rates;
}

std::vector<std::vector<MeasuredValue>> measure_peers(int gpus, double seconds) {
    std::vector<DeviceMemory> memory;
    for (int gpu = 0; gpu < gpus; ++gpu) {
        check(cudaSetDevice(gpu), "cudaSetDevice");
        memory.push_back(allocate_device(transfer));
        check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }
    std::vector<std::vector<MeasuredValue>> rates(gpus, std::vector<MeasuredValue>(gpus));
    const double slice = seconds / std::max(1, gpus * (gpus - 1));
    for (int from = 0; from < gpus; ++from) {
        check(cudaSetDevice(from), "cudaSetDevice");
        const Stream stream = make_stream();
        for (int to = 0; to < gpus; ++to) {
            if (to == from) continue;
            enable_peer_access(from, to);
            rates[from][to] = rate_of(stream, transfer, slice, [&] {
                check(cudaMemcpyPeerAsync(memory[to].get(), to, memory[from].get(), from, transfer, stream.get()),
                      "cudaMemcpyPeerAsync");
            });
        }
    }
    return rates;
}

MeasuredValue measure_ipc(const mpi::Comm& comm, int from, int to, int gpu, double seconds) {
    if (comm.rank() == to) {
        lend_memory(comm, from, gpu);
        return {};
    }
    Offer offer;
    mpi::receive_busy(comm, to, mpi::Tag::offer, std::as_writable_bytes(std::span{&offer, 1}));
    MeasuredValue rate;
    std::optional<Error> fault;
    try {
        rate = write_to_peer(offer, gpu, seconds);
    } catch (const Error& error) {
        fault = error;
    }
    const int done = fault ? 0 : 1;
    if (offer.valid != 0) mpi::send_busy(comm, to, mpi::Tag::offer, std::as_bytes(std::span{&done, 1}));
    if (fault) throw Error{*fault};
    return rate;
}

}  // namespace tpx
