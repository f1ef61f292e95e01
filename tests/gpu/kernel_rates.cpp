// SPDX-License-Identifier: Apache-2.0
// kernel_rates [SECONDS]: on GPU 0, compares what the kernels for strided copies make with what the host makes, then
// prints how fast they are as JSON, and how fast the GPU sends to itself by NCCL. Exits with 77 if CUDA finds no GPU.
#include "lib/core/memory_file.hpp"
#include "lib/exec/cuda/copy_kernels.hpp"
#include "lib/exec/cuda/runtime.hpp"
#include "lib/exec/gpu_memory.hpp"
#include "lib/exec/measure_gpu.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace tpx;

namespace {

constexpr Index rows = 16384;
constexpr Index columns = 16384;  // of the whole matrix in bf16: 512 MiB; of f32: 1 GiB

// A strided copy of all rows, or of a matrix of `small` rows for comparison.
struct Case {
    const char* name;
    Shape sizes;
    Strides read, write;  // in bytes
    DType from, to;
};

std::vector<Case> cases(Index height) {
    const Index half = columns / 2;
    return {
        {"pack half of the columns, bf16", {height, half}, {2 * columns, 2}, {2 * half, 2}, DType::bf16, DType::bf16},
        {"unpack half of the columns, bf16", {height, half}, {2 * half, 2}, {2 * columns, 2}, DType::bf16, DType::bf16},
        {"pack columns of 128 bytes, bf16", {height, 64}, {2 * columns, 2}, {128, 2}, DType::bf16, DType::bf16},
        {"copy, bf16", {height, columns}, {2 * columns, 2}, {2 * columns, 2}, DType::bf16, DType::bf16},
        {"pack and cast f32 to bf16", {height, half}, {4 * columns, 4}, {2 * half, 2}, DType::f32, DType::bf16},
        {"cast bf16 to f32", {height, half}, {2 * half, 2}, {4 * half, 4}, DType::bf16, DType::f32},
        {"cast bf16 to f8_e4m3", {height, columns}, {2 * columns, 2}, {columns, 1}, DType::bf16, DType::f8_e4m3},
        {"transpose, f32", {columns / 8, height}, {4, columns / 2}, {4 * height, 4}, DType::f32, DType::f32},
    };
}

CopyBatch batch_of(const Case& one, const std::byte* source, std::byte* target) {
    CopyBatch batch;
    batch.add(one.sizes, source, one.read, one.from, target, one.write, one.to);
    return batch;
}

// Whether the kernels make the same bytes as the host, for a matrix of few rows with any bits.
bool is_same(const Case& one) {
    constexpr std::size_t size = std::size_t{64} * columns * 4;
    std::vector<std::byte> source(size), expected(size), found(size);
    std::mt19937_64 random{7};
    for (std::size_t k = 0; k + 8 <= size; k += 8) {
        const std::uint64_t bits = random();
        std::memcpy(&source[k], &bits, 8);
    }
    run_on_host(batch_of(one, source.data(), expected.data()));
    const Fd file = make_memory_file("source", size), zeros = make_memory_file("target", size);
    write_at(file, 0, source, "source");
    const GpuMemory from{0, size}, to{0, size};
    GpuCopier copier{0};
    copier.upload(file, from);
    copier.upload(zeros, to);
    copier.run(batch_of(one, from.data(), to.data()));
    copier.download(to, zeros);
    read_at(zeros, 0, found, "target");
    return found == expected;
}

// Bytes read and written per second.
MeasuredValue rate(const Case& one, const GpuMemory& from, const GpuMemory& to, double seconds) {
    const CopyBatch batch = batch_of(one, from.data(), to.data());
    const bool casts = one.from != one.to;
    const CopyList& list = casts ? batch.casts() : batch.plain();
    const std::size_t size = list.copies.size() * sizeof(StridedCopy);
    cuda::check(cudaSetDevice(0), "cudaSetDevice");
    const cuda::DeviceMemory copies = cuda::allocate_device(size);
    cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    cuda::check(cudaMemcpy(copies.get(), list.copies.data(), size, cudaMemcpyDefault), "cudaMemcpy");
    const cuda::Stream stream = cuda::make_stream();
    const auto moved = static_cast<std::size_t>(volume(one.sizes) * (itemsize(one.from) + itemsize(one.to)));
    return cuda::rate_of(stream, moved, seconds, [&] {
        const auto launch = casts ? cuda::launch_casts : cuda::launch_copies;
        cuda::check(launch(static_cast<const StridedCopy*>(copies.get()),
                           static_cast<std::uint32_t>(list.copies.size()), list.tiles, stream.get()),
                    "kernel");
    });
}

// Bytes per second from the GPU to itself by NCCL, as JSON; null, with the reason on stderr, without NCCL.
std::string nccl_to_itself() {
    try {
        return fmt::format("{:.4g}", measure_nccl(mpi::Comm{}, {0}, {{0, 0}}, 0).pairs.at(0).median);
    } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return "null";
    }
}

int run(double seconds) {
    for (const Case& one : cases(64))
        if (!is_same(one)) {
            std::printf("%s: the GPU makes other bytes than the host\n", one.name);
            return 1;
        }
    const GpuRates rates = measure_gpu(0, 3 * seconds);
    constexpr std::uint64_t size = std::uint64_t{4} * rows * columns;
    const GpuMemory from{0, size}, to{0, size};
    std::printf("{\"memcpy\": %.4g, \"to_device\": %.4g, \"from_device\": %.4g, \"nccl_to_itself\": %s, \"kernels\": {",
                2 * rates.copy.median, rates.to_device.median, rates.from_device.median, nccl_to_itself().c_str());
    const char* separator = "";
    for (const Case& one : cases(rows)) {
        std::printf("%s\"%s\": %.4g", separator, one.name, rate(one, from, to, seconds).median);
        separator = ", ";
    }
    std::printf("}}\n");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const CudaGpus found = find_cuda_gpus();
    if (found.gpus.empty()) {
        std::printf("skipped: no GPU: %s\n", found.reason.c_str());
        return 77;
    }
    try {
        return run(argc > 1 ? std::atof(argv[1]) : 0.5);
    } catch (const Error& error) {
        std::printf("%s\n", error.what());
        return 1;
    }
}
