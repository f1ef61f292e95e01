// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/gpu_memory.hpp"

#include "lib/core/crc.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/cuda/copy_kernels.hpp"
#include "lib/exec/cuda/runtime.hpp"
#include "lib/exec/measure_gpu.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

namespace tpx {
namespace {

constexpr std::size_t pinned_size = std::size_t{16} << 20;

template <class Body>
auto on_gpu(int gpu, Body&& body) {
    return in_context([&] { return fmt::format("GPU {}", gpu); },
                      [&] {
                          cuda::check(cudaSetDevice(gpu), "cudaSetDevice");
                          return body();
                      });
}

GpuInfo room_of(int gpu, const CudaGpu& found) {
    return on_gpu(gpu, [&] {
        std::size_t free = 0, total = 0;
        cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
        return GpuInfo{found.name, found.bus, free, total};
    });
}

}  // namespace

std::vector<GpuInfo> list_gpus() {
    const CudaGpus found = find_cuda_gpus();
    if (found.gpus.empty()) throw failure("no GPU: {}", found.reason);
    std::vector<GpuInfo> rooms;
    for (std::size_t gpu = 0; gpu < found.gpus.size(); ++gpu)
        rooms.push_back(room_of(static_cast<int>(gpu), found.gpus[gpu]));
    return rooms;
}

int gpu_with_address(const std::string& bus) {
    int gpu = 0;
    in_context([&] { return fmt::format("GPU {}", bus); },
               [&] { cuda::check(cudaDeviceGetByPCIBusId(&gpu, bus.c_str()), "cudaDeviceGetByPCIBusId"); });
    return gpu;
}

void release_gpu(int gpu) {
    if (cudaSetDevice(gpu) == cudaSuccess) cudaDeviceReset();
    cudaGetLastError();
}

GpuMemory::GpuMemory(int gpu, std::uint64_t size) : gpu_{gpu}, size_{size} {
    on_gpu(gpu, [&] {
        void* memory = nullptr;
        const cudaError_t code = cudaMalloc(&memory, std::max<std::uint64_t>(size, 1));
        if (code == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            std::size_t free = 0, total = 0;
            cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
            throw failure("{} do not fit: {} of {} are free", format_size(size), format_size(free), format_size(total));
        }
        cuda::check(code, "cudaMalloc");
        data_ = static_cast<std::byte*>(memory);
    });
}

GpuMemory::GpuMemory(int gpu, const GpuHandle& handle, std::uint64_t size) : gpu_{gpu}, size_{size}, is_opened_{true} {
    static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(GpuHandle));
    on_gpu(gpu, [&] {
        cudaIpcMemHandle_t cuda_handle{};
        std::memcpy(&cuda_handle, handle.data(), handle.size());
        void* memory = nullptr;
        cuda::check(cudaIpcOpenMemHandle(&memory, cuda_handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
        data_ = static_cast<std::byte*>(memory);
    });
}

GpuMemory::~GpuMemory() {
    if (data_ == nullptr) return;
    cudaSetDevice(gpu_);
    if (is_opened_)
        cudaIpcCloseMemHandle(data_);
    else
        cudaFree(data_);
}

GpuHandle GpuMemory::handle() const {
    return on_gpu(gpu_, [&] {
        cudaIpcMemHandle_t cuda_handle{};
        cuda::check(cudaIpcGetMemHandle(&cuda_handle, data_), "cudaIpcGetMemHandle");
        GpuHandle handle{};
        std::memcpy(handle.data(), &cuda_handle, handle.size());
        return handle;
    });
}

void GpuMemory::clear() {
    on_gpu(gpu_, [&] {
        cuda::check(cudaMemset(data_, 0, size_), "cudaMemset");
        cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    });
}

PinnedBuffer::PinnedBuffer(int gpu, std::uint64_t size) : gpu_{gpu} {
    on_gpu(gpu, [&] {
        void* memory = nullptr;
        const cudaError_t code = cudaMallocHost(&memory, std::max<std::uint64_t>(size, 1));
        if (code == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            throw failure("{} of pinned host memory are not available", format_size(size));
        }
        cuda::check(code, "cudaMallocHost");
        data_ = static_cast<std::byte*>(memory);
    });
}

PinnedBuffer::~PinnedBuffer() {
    cudaSetDevice(gpu_);
    cudaFreeHost(data_);
}

struct GpuCopier::Buffers {
    struct Buffer {
        cuda::PinnedMemory memory = cuda::allocate_pinned(pinned_size);
        cuda::Event idle = cuda::make_event();  // reached when the copy of the buffer is done
        std::uint64_t offset = 0;
        std::size_t length = 0;  // that a copy brings; 0: none

        std::span<std::byte> bytes(std::size_t size) { return {static_cast<std::byte*>(memory.get()), size}; }
    };

    cuda::Stream stream = cuda::make_stream();
    std::array<Buffer, 2> pair;

    void copy(void* to, const void* from, std::size_t size, Buffer& buffer) {
        cuda::check(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream.get()), "cudaMemcpyAsync");
        cuda::check(cudaEventRecord(buffer.idle.get(), stream.get()), "cudaEventRecord");
    }

    static void wait(const Buffer& buffer) { cuda::check(cudaEventSynchronize(buffer.idle.get()), "copy"); }

    /// Forgets what a copy that failed has left.
    void settle() {
        cuda::check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
        for (Buffer& buffer : pair) buffer.length = 0;
    }

    /// Writes what the buffer was filled with.
    static void empty(Buffer& buffer, const Fd& to) {
        if (buffer.length == 0) return;
        wait(buffer);
        write_at(to, buffer.offset, buffer.bytes(buffer.length), "memory of the host");
        buffer.length = 0;
    }

    /// The checksums of chunks, which a kernel computes.
    std::vector<std::uint32_t> crcs(std::span<const CrcChunk> chunks) {
        std::vector<std::uint32_t> found(chunks.size());
        if (chunks.empty()) return found;
        void *list = nullptr, *sums = nullptr;
        cuda::check(cudaMalloc(&list, chunks.size_bytes()), "cudaMalloc");
        const cuda::DeviceMemory owned_list{list};
        cuda::check(cudaMalloc(&sums, found.size() * sizeof found[0]), "cudaMalloc");
        const cuda::DeviceMemory owned_sums{sums};
        cuda::check(cudaMemcpyAsync(list, chunks.data(), chunks.size_bytes(), cudaMemcpyDefault, stream.get()),
                    "cudaMemcpyAsync");
        cuda::check(cuda::launch_crcs(static_cast<const CrcChunk*>(list), static_cast<std::uint32_t>(chunks.size()),
                                      static_cast<std::uint32_t*>(sums), stream.get()),
                    "checksum kernel");
        cuda::check(
            cudaMemcpyAsync(found.data(), sums, found.size() * sizeof found[0], cudaMemcpyDefault, stream.get()),
            "cudaMemcpyAsync");
        cuda::check(cudaStreamSynchronize(stream.get()), "checksum kernel");
        return found;
    }

    /// Starts a kernel with a list that is copied to the GPU before.
    template <class Launch>
    void run(const CopyList& list, Launch&& launch, const char* what) {
        if (list.copies.empty()) return;
        const std::size_t size = list.copies.size() * sizeof(StridedCopy);
        void* memory = nullptr;
        cuda::check(cudaMalloc(&memory, size), "cudaMalloc");
        const cuda::DeviceMemory copies{memory};
        cuda::check(cudaMemcpyAsync(copies.get(), list.copies.data(), size, cudaMemcpyDefault, stream.get()),
                    "cudaMemcpyAsync");
        cuda::check(launch(static_cast<const StridedCopy*>(copies.get()),
                           static_cast<std::uint32_t>(list.copies.size()), list.tiles, stream.get()),
                    what);
        cuda::check(cudaStreamSynchronize(stream.get()), what);
    }
};

GpuCopier::GpuCopier(int gpu) : gpu_{gpu} {
    on_gpu(gpu, [&] { buffers_ = std::make_unique<Buffers>(); });
}

GpuCopier::~GpuCopier() {
    cudaSetDevice(gpu_);
    cudaStreamSynchronize(buffers_->stream.get());  // copies use the buffers
}

void GpuCopier::upload(const Fd& from, std::uint64_t begin, std::uint64_t end, const GpuMemory& to) {
    on_gpu(gpu_, [&] {
        buffers_->settle();
        std::size_t turn = 0;
        for (std::uint64_t offset = begin; offset < end; offset += pinned_size, ++turn) {
            Buffers::Buffer& buffer = buffers_->pair[turn % 2];
            const std::size_t length = std::min<std::uint64_t>(pinned_size, end - offset);
            if (turn >= 2) Buffers::wait(buffer);
            read_at(from, offset, buffer.bytes(length), "memory of the host");
            buffers_->copy(to.data() + offset, buffer.memory.get(), length, buffer);
        }
        cuda::check(cudaStreamSynchronize(buffers_->stream.get()), "cudaStreamSynchronize");
    });
}

void GpuCopier::download(const GpuMemory& from, std::uint64_t begin, std::uint64_t end, const Fd& to) {
    on_gpu(gpu_, [&] {
        buffers_->settle();
        std::size_t turn = 0;
        for (std::uint64_t offset = begin; offset < end; offset += pinned_size, ++turn) {
            Buffers::Buffer& buffer = buffers_->pair[turn % 2];
            Buffers::empty(buffer, to);
            buffer.offset = offset;
            buffer.length = std::min<std::uint64_t>(pinned_size, end - offset);
            buffers_->copy(buffer.memory.get(), from.data() + offset, buffer.length, buffer);
        }
        for (std::size_t k = 0; k < 2; ++k) Buffers::empty(buffers_->pair[(turn + k) % 2], to);
    });
}

void GpuCopier::run(const CopyBatch& batch) {
    on_gpu(gpu_, [&] {
        buffers_->run(batch.plain(), cuda::launch_copies, "copy kernel");
        buffers_->run(batch.casts(), cuda::launch_casts, "cast kernel");
    });
}

std::vector<std::uint32_t> GpuCopier::crcs(std::span<const Bytes> runs) {
    constexpr std::size_t most = crc_memory / (sizeof(CrcChunk) + sizeof(std::uint32_t));
    std::vector<std::uint32_t> joined(runs.size());
    std::vector<CrcChunk> chunks;
    std::vector<std::size_t> run_of_chunk;
    const auto finish = [&] {
        const std::vector<std::uint32_t> crcs = buffers_->crcs(chunks);
        for (std::size_t k = 0; k < crcs.size(); ++k) {
            std::uint32_t& crc = joined[run_of_chunk[k]];
            crc = crcs[k] ^ Crc32::times(crc, Crc32::power(8 * std::uint64_t{chunks[k].size}));
        }
        chunks.clear();
        run_of_chunk.clear();
    };
    on_gpu(gpu_, [&] {
        for (std::size_t run = 0; run < runs.size(); ++run)
            for (std::uint64_t done = 0; done < runs[run].size; done += CrcChunk::longest) {
                const std::uint64_t size = std::min<std::uint64_t>(CrcChunk::longest, runs[run].size - done);
                chunks.push_back({runs[run].begin + done, static_cast<std::uint32_t>(size)});
                run_of_chunk.push_back(run);
                if (chunks.size() == most) finish();
            }
        finish();
    });
    return joined;
}

}  // namespace tpx
