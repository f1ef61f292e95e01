// SPDX-License-Identifier: Apache-2.0
// The part of CUDA's runtime that tpx calls, with memory of the host in place of GPUs: how calls follow each other can
// be tested with it, not how fast anything is. FAKE_GPUS says how many there are, FAKE_MEMORY how many bytes the memory
// of each has, FAKE_NO_PEERS which pairs such as "0-1,2-3" have no peer access; FAKE_FAULT names calls that fail (see
// shared.hpp), FAKE_FAULT_GPU the only GPU on which they do, and FAKE_DELAY how many ms a copy from a GPU to the host
// and a kernel that copies take. Kernels walk on the host.
#include "lib/exec/cuda/copy_kernels.hpp"
#include "tests/gpu/shared.hpp"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

struct CUstream_st {
    int device;
};
struct CUevent_st {
    int device;
    std::chrono::steady_clock::time_point when;
};

namespace {

int current = 0;

struct Block {
    std::size_t size;
    int device;              // -1: pinned
    int file = -1;           // of memory of a GPU; the system frees it with the process
    bool is_opened = false;  // of another process
};
std::map<void*, Block> blocks;

int gpus() {
    const char* count = std::getenv("FAKE_GPUS");
    return count ? std::atoi(count) : 2;
}

std::size_t memory_size() {
    const char* size = std::getenv("FAKE_MEMORY");
    return size ? std::strtoull(size, nullptr, 10) : std::size_t{1} << 34;
}

// Of this process only: others are not asked.
std::size_t memory_used() {
    std::size_t used = 0;
    for (const auto& [memory, block] : blocks)
        if (block.device == current && !block.is_opened) used += block.size;
    return used;
}

cudaError_t answer(const char* call, bool holds = true) {
    const char* gpu = std::getenv("FAKE_FAULT_GPU");
    if ((!gpu || std::atoi(gpu) == current) && is_faulty(call)) return cudaErrorUnknown;
    return holds ? cudaSuccess : cudaErrorInvalidValue;
}

void take_time() {
    const char* delay = std::getenv("FAKE_DELAY");
    if (delay) std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(delay)));
}

// Whether `size` bytes at `at` are memory that was handed out.
bool is_known(const void* at, std::size_t size) {
    auto block = blocks.upper_bound(const_cast<void*>(at));
    if (block == blocks.begin()) return false;
    --block;
    return static_cast<const char*>(at) + size <= static_cast<char*>(block->first) + block->second.size;
}

// A file of the driver: nobody else may close it.
class DriverFile {
public:
    void open() {
        if (file_ >= 0) return;
        file_ = memfd_create("fake-driver", MFD_CLOEXEC);
        fstat(file_, &status_);
    }
    ~DriverFile() {
        struct stat now {};
        if (file_ < 0 || (fstat(file_, &now) == 0 && now.st_ino == status_.st_ino)) return;
        std::fputs("fake CUDA: a file of the driver was closed\n", stderr);
        std::abort();
    }

private:
    int file_ = -1;
    struct stat status_ {};
};
DriverFile driver_file;

void* map(int file, std::size_t size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
    *count = gpus();
    return gpus() == 0 ? cudaErrorNoDevice : answer("cudaGetDeviceCount");
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t code) {
    if (code == cudaErrorMemoryAllocation) return "out of memory";
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
    driver_file.open();
    return answer("cudaSetDevice", device >= 0 && device < gpus());
}
cudaError_t cudaDeviceReset() {
    for (const auto& [memory, block] : blocks)
        if (block.device == current) std::abort();  // it would be used after it was freed
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return answer("cudaStreamSynchronize"); }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *total = memory_size();
    *free = *total - std::min(*total, memory_used());
    return answer("cudaMemGetInfo");
}
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* bus) {
    return std::sscanf(bus, "0000:%*[aA]%d", device) == 1 ? answer("cudaDeviceGetByPCIBusId") : cudaErrorInvalidDevice;
}
cudaError_t cudaMalloc(void** memory, std::size_t size) {
    if (size > memory_size() - std::min(memory_size(), memory_used()) || is_faulty("memory"))
        return cudaErrorMemoryAllocation;
    if (answer("cudaMalloc") != cudaSuccess) return cudaErrorUnknown;
    const int file = memfd_create("fake-gpu", MFD_CLOEXEC);
    *memory = file >= 0 && ftruncate(file, static_cast<off_t>(size)) == 0 ? map(file, size) : nullptr;
    if (*memory) blocks[*memory] = {size, current, file};
    constexpr std::size_t shown = std::size_t{1} << 20;  // new memory has what was there before
    if (*memory) std::memset(*memory, 0xa5, std::min(size, shown));
    return *memory ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaFree(void* memory) {
    const auto block = blocks.find(memory);
    if (block == blocks.end() || block->second.is_opened) std::abort();
    close(block->second.file);
    munmap(memory, block->second.size);
    blocks.erase(block);
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, std::size_t size) {
    if (answer("cudaMallocHost") != cudaSuccess) return cudaErrorUnknown;
    *memory = std::malloc(size);
    blocks[*memory] = {size, -1};
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
    if (blocks.erase(memory) != 1) std::abort();
    std::free(memory);
    return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, std::size_t size) {
    if (!is_known(memory, size)) std::abort();
    std::memset(memory, value, size);
    return answer("cudaMemset");
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
// By default, one side may be memory of the caller. Where timing is measured, the bytes do not matter.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind kind, cudaStream_t) {
    const bool known = is_known(to, size), from_known = is_known(from, size);
    if (kind == cudaMemcpyDefault ? !known && !from_known : !known || !from_known) return cudaErrorInvalidValue;
    const auto pinned = blocks.find(to);
    if (pinned != blocks.end() && pinned->second.device == -1) take_time();
    std::memcpy(to, from, kind == cudaMemcpyDefault ? size : std::min<std::size_t>(size, 4096));
    return answer("cudaMemcpyAsync");
}
cudaError_t cudaDeviceCanAccessPeer(int* possible, int device, int peer) {
    *possible = device != peer && !has_pair("FAKE_NO_PEERS", device, peer);
    return answer("cudaDeviceCanAccessPeer");
}
// GPUs whose numbers differ by more have slower links.
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int from, int to) {
    *value = std::abs(from - to) - 1;
    return answer("cudaDeviceGetP2PAttribute", attribute == cudaDevP2PAttrPerformanceRank);
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
    constexpr std::size_t path = sizeof handle->reserved - 1;  // and after it, the GPU
    std::snprintf(handle->reserved, path, "/proc/%d/fd/%d", getpid(), block->second.file);
    handle->reserved[path] = static_cast<char>(block->second.device);
    return answer("cudaIpcGetMemHandle");
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
    if (has_pair("FAKE_NO_PEERS", current, handle.reserved[sizeof handle.reserved - 1]))
        return cudaErrorPeerAccessUnsupported;
    const int file = open(handle.reserved, O_RDWR | O_CLOEXEC);
    struct stat status {};
    *memory = file >= 0 && fstat(file, &status) == 0 ? map(file, static_cast<std::size_t>(status.st_size)) : nullptr;
    if (file >= 0) close(file);
    if (*memory) blocks[*memory] = {static_cast<std::size_t>(status.st_size), current, -1, true};
    return answer("cudaIpcOpenMemHandle", *memory != nullptr);
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
    if (blocks.count(memory) != 1 || !blocks[memory].is_opened) std::abort();
    if (answer("cudaIpcCloseMemHandle") != cudaSuccess) return cudaErrorUnknown;
    munmap(memory, blocks[memory].size);
    blocks.erase(memory);
    return cudaSuccess;
}
}

namespace tpx::cuda {

cudaError_t launch_copies(const StridedCopy* copies, std::uint32_t count, std::uint32_t tiles, cudaStream_t) {
    take_time();
    for (std::uint32_t tile = 0; tile < tiles; ++tile)
        for (std::uint32_t thread = 0; thread < block_threads; ++thread)
            run_tile<copy_items>(copies, count, tile, thread, block_threads);
    return answer("launch_copies");
}

cudaError_t launch_casts(const StridedCopy* copies, std::uint32_t count, std::uint32_t tiles, cudaStream_t) {
    for (std::uint32_t tile = 0; tile < tiles; ++tile)
        for (std::uint32_t thread = 0; thread < block_threads; ++thread)
            run_tile<cast_items>(copies, count, tile, thread, block_threads);
    return answer("launch_casts");
}

cudaError_t launch_crcs(const CrcChunk* chunks, std::uint32_t count, std::uint32_t* crcs, cudaStream_t) {
    for (std::uint32_t k = 0; k < count; ++k) crcs[k] = chunk_crc(chunks[k]);
    return answer("launch_crcs");
}

}  // namespace tpx::cuda
