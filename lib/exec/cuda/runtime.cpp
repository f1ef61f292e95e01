// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/cuda/runtime.hpp"

#include "lib/core/error.hpp"

#include <chrono>
#include <vector>

namespace tpx::cuda {

void check(cudaError_t code, const char* call) {
    if (code == cudaSuccess) return;
    cudaGetLastError();  // or the next call would report it once more
    throw failure("{}: {}", call, cudaGetErrorString(code));
}

DeviceMemory allocate_device(std::size_t size) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, size), "cudaMalloc");
    DeviceMemory owner{memory};
    check(cudaMemset(memory, 0x5a, size), "cudaMemset");
    return owner;
}

PinnedMemory allocate_pinned(std::size_t size) {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, size), "cudaMallocHost");
    return PinnedMemory{memory};
}

Stream make_stream() {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return Stream{stream};
}

Event make_event() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "cudaEventCreate");
    return Event{event};
}

MeasuredValue rate_of(const Stream& stream, std::size_t bytes, double seconds, const std::function<void()>& work) {
    using Clock = std::chrono::steady_clock;
    constexpr std::size_t least = 5;
    const Event begin = make_event(), end = make_event();
    std::vector<double> rates;
    const Clock::time_point start = Clock::now();
    do {
        check(cudaEventRecord(begin.get(), stream.get()), "cudaEventRecord");
        work();
        check(cudaEventRecord(end.get(), stream.get()), "cudaEventRecord");
        check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
        if (milliseconds > 0) rates.push_back(static_cast<double>(bytes) / (1e-3 * double(milliseconds)));
    } while (rates.size() <= least || std::chrono::duration<double>(Clock::now() - start).count() < seconds);
    rates.erase(rates.begin());
    return summarize(rates);
}

}  // namespace tpx::cuda
