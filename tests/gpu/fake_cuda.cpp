// SPDX-License-Identifier: Apache-2.0
// The part of CUDA's runtime that tpx calls, with memory of the host in place of GPUs: how calls follow each other can
// be tested with it, not how fast anything is. FAKE_GPUS says how many there are; FAKE_FAULT names a call that fails.
#include "tests/gpu/shared.hpp"

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

struct CUstream_st {
    int device;
};
struct CUevent_st {
    int device;
    std::chrono::steady_clock::time_point when;
};

namespace {

int current = 0;
int made = 0;

struct Block {
    std::string name;  // empty: pinned
    std::size_t size;
    int device;
};
std::map<void*, Block> blocks;

int gpus() {
    const char* count = std::getenv("FAKE_GPUS");
    return count ? std::atoi(count) : 2;
}

cudaError_t answer(const char* call, bool holds = true) {
    const char* fault = std::getenv("FAKE_FAULT");
    if (fault && std::strcmp(fault, call) == 0) return cudaErrorUnknown;
    return holds ? cudaSuccess : cudaErrorInvalidValue;
}

// Whether `size` bytes at `at` are memory that was handed out.
bool is_known(const void* at, std::size_t size) {
    auto block = blocks.upper_bound(const_cast<void*>(at));
    if (block == blocks.begin()) return false;
    --block;
    return static_cast<const char*>(at) + size <= static_cast<char*>(block->first) + block->second.size;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
    *count = gpus();
    return gpus() == 0 ? cudaErrorNoDevice : answer("cudaGetDeviceCount");
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t code) {
    return code == cudaErrorNoDevice ? "no CUDA-capable device is detected" : "fake fault";
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    std::strcpy(properties->name, "Fake GPU");
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* bus, int size, int device) {
    std::snprintf(bus, static_cast<std::size_t>(size), "0000:A%d:00.0", device);
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    current = device;
    return answer("cudaSetDevice", device >= 0 && device < gpus());
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaMalloc(void** memory, std::size_t size) {
    const std::string name = "/tpx-fake-" + std::to_string(getpid()) + "-" + std::to_string(made++);
    *memory = map_shared(name, size, true);
    if (*memory) blocks[*memory] = {name, size, current};
    return answer("cudaMalloc", *memory != nullptr);
}
cudaError_t cudaFree(void* memory) {
    const auto block = blocks.find(memory);
    if (block == blocks.end()) std::abort();
    shm_unlink(block->second.name.c_str());
    munmap(memory, block->second.size);
    blocks.erase(block);
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, std::size_t size) {
    *memory = std::malloc(size);
    blocks[*memory] = {"", size, -1};
    return answer("cudaMallocHost");
}
cudaError_t cudaFreeHost(void* memory) {
    if (blocks.erase(memory) != 1) std::abort();
    std::free(memory);
    return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, std::size_t size) {
    if (!is_known(memory, size)) std::abort();
    std::memset(memory, value, std::min<std::size_t>(size, 4096));
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    *stream = new CUstream_st{current};
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
    *event = new CUevent_st{current, {}};
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}
// An event goes with streams of its own GPU only.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
    event->when = std::chrono::steady_clock::now();
    return answer("cudaEventRecord");
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return answer("cudaEventQuery"); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    *milliseconds = 1e-3F + std::chrono::duration<float, std::milli>(end->when - begin->when).count();
    return answer("cudaEventElapsedTime", begin->when.time_since_epoch().count() > 0);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind kind, cudaStream_t) {
    const bool small = size <= 8 && kind == cudaMemcpyDefault;  // to and from variables of the caller
    if (!small && (!is_known(to, size) || !is_known(from, size))) return cudaErrorInvalidValue;
    std::memcpy(to, from, std::min<std::size_t>(size, 4096));
    return answer("cudaMemcpyAsync");
}
cudaError_t cudaDeviceCanAccessPeer(int* possible, int device, int peer) {
    *possible = device != peer;
    return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    return answer("cudaDeviceEnablePeerAccess", flags == 0 && peer != current);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t size,
                                cudaStream_t stream) {
    const bool holds = is_known(to, size) && is_known(from, size) && blocks[to].device == to_device &&
                       blocks[const_cast<void*>(from)].device == from_device && stream->device == from_device;
    return answer("cudaMemcpyPeerAsync", holds);
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
    const auto block = blocks.find(memory);
    if (block == blocks.end()) return cudaErrorInvalidValue;
    std::strcpy(handle->reserved, block->second.name.c_str());
    return answer("cudaIpcGetMemHandle");
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
    constexpr std::size_t size = std::size_t{64} << 20;
    *memory = map_shared(handle.reserved, size, false);
    if (*memory) blocks[*memory] = {"", size, -1};
    return answer("cudaIpcOpenMemHandle", *memory != nullptr);
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
    munmap(memory, blocks[memory].size);
    blocks.erase(memory);
    return cudaSuccess;
}
}
