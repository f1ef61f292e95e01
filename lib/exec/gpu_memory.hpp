// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/file.hpp"
#include "lib/exec/device/copy_batch.hpp"
#include "lib/exec/device/links.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

// Memory of GPUs, by CUDA. Every function throws Error "GPU N: CALL: reason"; in a build without CUDA, all of them do.
namespace tpx {

/// A GPU and its memory, in bytes.
struct GpuInfo {
    std::string name;
    std::string bus;  ///< its PCI address, "0000:3b:00.0"
    std::uint64_t free = 0;
    std::uint64_t total = 0;
};

/// The GPUs that this process can use, by their CUDA number. Initializes CUDA, so children forked later cannot use it.
std::vector<GpuInfo> list_gpus();

/// The links between the GPUs that this process can use, as CUDA and, if it is there, NVIDIA's management library know
/// them. Initializes CUDA, as list_gpus() does.
GpuLinks list_gpu_links();

/// The CUDA number of the GPU with the PCI address `bus`. Unlike list_gpus(), takes no memory of any GPU.
int gpu_with_address(const std::string& bus);

/// Frees all that CUDA has in a GPU for this process. Precondition: there is no GpuMemory and no GpuCopier of this GPU.
/// Never throws.
void release_gpu(int gpu);

/// A CUDA IPC handle, with which another process of this host opens GPU memory.
using GpuHandle = std::array<std::byte, 64>;

/// A range of memory of a GPU, which lasts as long as this object.
class GpuMemory {
public:
    /// Allocates memory.
    GpuMemory(int gpu, std::uint64_t size);
    /// Opens memory that another process has allocated.
    GpuMemory(int gpu, const GpuHandle& handle, std::uint64_t size);
    ~GpuMemory();
    GpuMemory(const GpuMemory&) = delete;
    GpuMemory& operator=(const GpuMemory&) = delete;

    int gpu() const { return gpu_; }
    std::byte* data() const { return data_; }
    std::uint64_t size() const { return size_; }
    /// Precondition: this process has allocated the memory.
    GpuHandle handle() const;
    /// Sets all bytes to zero.
    void clear();

private:
    int gpu_;
    std::uint64_t size_;
    std::byte* data_ = nullptr;
    bool is_opened_ = false;
};

/// Pinned memory of the host, which kernels of `gpu` read and write directly.
class PinnedBuffer {
public:
    PinnedBuffer(int gpu, std::uint64_t size);
    ~PinnedBuffer();
    PinnedBuffer(const PinnedBuffer&) = delete;
    PinnedBuffer& operator=(const PinnedBuffer&) = delete;

    std::byte* data() const { return data_; }

private:
    int gpu_;
    std::byte* data_ = nullptr;
};

/// Copies between memory of one GPU and files, by way of two pinned buffers of the host: while one is filled, the other
/// one is on its way.
class GpuCopier {
public:
    explicit GpuCopier(int gpu);
    ~GpuCopier();
    GpuCopier(const GpuCopier&) = delete;
    GpuCopier& operator=(const GpuCopier&) = delete;

    /// Copies the first bytes of a file to all of `to`, and all of `from` to the first bytes of a file.
    void upload(const Fd& from, const GpuMemory& to) { upload(from, 0, to.size(), to); }
    void download(const GpuMemory& from, const Fd& to) { download(from, 0, from.size(), to); }

    /// Copies the bytes from `begin` up to `end` to the same place of the other one.
    void upload(const Fd& from, std::uint64_t begin, std::uint64_t end, const GpuMemory& to);
    void download(const GpuMemory& from, std::uint64_t begin, std::uint64_t end, const Fd& to);

    /// Makes the copies of a batch between places that this GPU reaches, and waits for them.
    void run(const CopyBatch& batch);

    /// A run of bytes in memory that this GPU reaches.
    struct Bytes {
        const std::byte* begin = nullptr;
        std::uint64_t size = 0;
    };
    /// Crc32::of() each of `runs`, computed by this GPU.
    std::vector<std::uint32_t> crcs(std::span<const Bytes> runs);

    static constexpr std::uint64_t crc_memory = std::uint64_t{2} << 20;  ///< GPU memory that crcs() needs, at most
    static constexpr std::uint64_t copy_memory = sizeof(StridedCopy);    ///< GPU memory that run() needs for each copy

private:
    struct Buffers;
    std::unique_ptr<Buffers> buffers_;
    int gpu_;
};

}  // namespace tpx
