// SPDX-License-Identifier: Apache-2.0
// Memory of GPUs, the kernels' launches and faults of CUDA, with stand-ins for both.
#include "lib/core/memory_file.hpp"
#include "lib/exec/gpu_memory.hpp"
#include "lib/exec/mpi.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

using namespace tpx;

namespace {

std::optional<std::string> message_of(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    return std::nullopt;
}

struct Setting {
    const char* name;
    Setting(const char* variable, const char* value) : name{variable} { setenv(name, value, 1); }
    Setting(const Setting&) = delete;
    Setting& operator=(const Setting&) = delete;
    ~Setting() { unsetenv(name); }
};

std::vector<std::byte> pattern(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t k = 0; k < size; ++k) bytes[k] = static_cast<std::byte>(k * 2654435761u >> 13);
    return bytes;
}

Fd file_of(std::span<const std::byte> bytes) {
    Fd file = make_memory_file("test", bytes.size());
    write_at(file, 0, bytes, "test");
    return file;
}

std::vector<std::byte> bytes_of(const Fd& file, std::size_t size) {
    std::vector<std::byte> bytes(size);
    read_at(file, 0, bytes, "test");
    return bytes;
}

}  // namespace

TEST_CASE("what is uploaded is downloaded, whatever its size is in pinned buffers") {
    constexpr std::size_t pinned = std::size_t{16} << 20;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, pinned - 1, pinned, 2 * pinned + 3, 4 * pinned}) {
        CAPTURE(size);
        const std::vector<std::byte> bytes = pattern(size);
        const GpuMemory memory{1, size};
        GpuCopier copier{1};
        copier.upload(file_of(bytes), memory);
        const Fd file = make_memory_file("test", size);
        copier.download(memory, file);
        CHECK(bytes_of(file, size) == bytes);
    }
}

TEST_CASE("kernels copy and cast what the host does, in one launch each") {
    const std::vector<std::byte> source = pattern(1 << 20);
    const GpuMemory from{0, source.size()}, to{0, source.size()};
    GpuCopier copier{0};
    copier.upload(file_of(source), from);
    copier.upload(file_of(std::vector<std::byte>(source.size())), to);
    std::vector<std::byte> expected(source.size());
    const auto add_all = [](CopyBatch& batch, const std::byte* read, std::byte* write) {
        batch.add({300, 128}, read, {512, 2}, DType::bf16, write, {256, 2}, DType::bf16);           // pack
        batch.add({300, 128}, read, {256, 2}, DType::bf16, write + 100000, {512, 2}, DType::bf16);  // unpack
        batch.add({50, 60}, read + 4, {240, 4}, DType::f32, write + 300000, {4, 200}, DType::f32);  // transpose
        batch.add({64, 100}, read, {400, 4}, DType::f32, write + 400000, {200, 2}, DType::bf16);
        batch.add({64, 96}, read, {96, 1}, DType::f8_e4m3, write + 500000, {384, 4}, DType::f32);
    };
    CopyBatch on_host, on_gpu;
    add_all(on_host, source.data(), expected.data());
    run_on_host(on_host);
    add_all(on_gpu, from.data(), to.data());
    copier.run(on_gpu);
    const Fd file = make_memory_file("test", source.size());
    copier.download(to, file);
    CHECK(bytes_of(file, source.size()) == expected);
    for (const char* call : {"launch_copies", "launch_casts"}) {
        const Setting broken{"FAKE_FAULT", call};
        CHECK(message_of([&] { copier.run(on_gpu); }) ==
              std::string{"GPU 0: "} + (call[7] == 'c' && call[9] == 'p' ? "copy" : "cast") + " kernel: fake fault");
    }
}

TEST_CASE("the rooms of GPUs are what CUDA says, and what does not fit is refused with numbers") {
    const Setting small{"FAKE_MEMORY", "1000000"};
    const GpuMemory used{1, 400000};
    const std::vector<GpuInfo> rooms = list_gpus();
    REQUIRE(rooms.size() == 2);
    CHECK(rooms[0].free == 1000000);
    CHECK(rooms[1].free == 600000);
    CHECK(rooms[1].total == 1000000);
    CHECK(rooms[1].bus == "0000:a1:00.0");
    CHECK(message_of([] {
              const GpuMemory more{1, 600001};
          }) == "GPU 1: 600 kB do not fit: 600 kB of 1.00 MB are free");
    CHECK(message_of([] { const GpuMemory other{2, 1}; }) == "GPU 2: cudaSetDevice: fake fault");
    const Setting none{"FAKE_GPUS", "0"};
    CHECK(message_of([] { list_gpus(); }) == "no GPU: no CUDA-capable device is detected");
}

TEST_CASE("links between GPUs are those of CUDA and NVML; without NVML, no link is NVLink") {
    const Setting four{"FAKE_GPUS", "4"}, no_peers{"FAKE_NO_PEERS", "0-3"}, nvlinks{"FAKE_NVLINKS", "0-1,2-3"};
    const auto expect = [](LinkClass by_nvml) {
        const GpuLinks links = list_gpu_links();
        REQUIRE(links.size() == 4);
        for (std::size_t a = 0; a < 4; ++a)
            for (std::size_t b = 0; b < 4; ++b) CHECK(links[a][b] == links[b][a]);
        CHECK(links[2][2] == MemoryLink{LinkClass::same_gpu, 0});
        CHECK(links[0][1] == MemoryLink{by_nvml, 0});
        CHECK(links[3][2] == MemoryLink{by_nvml, 0});
        CHECK(links[0][2] == MemoryLink{LinkClass::pcie, 1});
        CHECK(links[0][3] == MemoryLink{LinkClass::host_memory, 0});
        CHECK(links[3][1] == MemoryLink{LinkClass::pcie, 1});
    };
    expect(LinkClass::nvlink);
    {
        const Setting broken{"FAKE_FAULT", "nvmlInit"};
        expect(LinkClass::pcie);
    }
    const Setting broken{"FAKE_FAULT", "cudaDeviceGetP2PAttribute"};  // no order within a kind
    CHECK(list_gpu_links()[0][2] == MemoryLink{LinkClass::pcie, 0});
}

TEST_CASE("each call that fails is named") {
    const Fd file = file_of(pattern(100));
    const GpuMemory memory{0, 100};
    GpuCopier copier{0};
    const auto fault = [&](const char* call, const std::function<void()>& body) {
        const Setting broken{"FAKE_FAULT", call};
        CHECK(message_of(body) == std::string{"GPU 0: "} + call + ": fake fault");
    };
    fault("cudaSetDevice", [] { const GpuMemory more{0, 1}; });
    fault("cudaMalloc", [] { const GpuMemory more{0, 1}; });
    fault("cudaMemGetInfo", [] { list_gpus(); });
    fault("cudaMallocHost", [] { const GpuCopier other{0}; });
    fault("cudaMemcpyAsync", [&] { copier.upload(file, memory); });
    fault("cudaEventRecord", [&] { copier.download(memory, file); });
    fault("cudaStreamSynchronize", [&] { copier.upload(file, memory); });
    fault("cudaIpcGetMemHandle", [&] { memory.handle(); });
    fault("cudaIpcOpenMemHandle", [&] { const GpuMemory opened{0, memory.handle(), 100}; });
    CHECK(message_of([&] { copier.upload(file, memory); }) == std::nullopt);
}

TEST_CASE("a copy that failed leaves nothing to the next one") {
    const GpuMemory memory{0, 100}, other{0, 10};
    GpuCopier copier{0};
    copier.upload(file_of(pattern(100)), memory);
    copier.upload(file_of(std::vector<std::byte>(10)), other);
    {
        const Setting broken{"FAKE_FAULT", "cudaEventRecord"};
        CHECK(message_of([&] { copier.download(memory, make_memory_file("test", 100)); }));
    }
    const Fd file = make_memory_file("test", 100);
    copier.download(other, file);
    CHECK(bytes_of(file, 100) == std::vector<std::byte>(100));
    copier.download(memory, 30, 60, file);
    const std::vector<std::byte> bytes = bytes_of(file, 100), expected = pattern(100);
    for (std::size_t k = 0; k < 100; ++k) CHECK(bytes[k] == (k < 30 || k >= 60 ? std::byte{0} : expected[k]));
}

TEST_CASE("another process opens memory by its handle, also to copy from it with a kernel") {
    const mpi::Comm world = mpi::Comm::world();
    if (world.rank() > 1) return;
    const std::vector<std::byte> bytes = pattern(5000);
    GpuHandle handle{};
    if (world.rank() == 0) {
        const GpuMemory memory{0, bytes.size()};
        GpuCopier{0}.upload(file_of(bytes), memory);
        handle = memory.handle();
        mpi::send_busy(world, 1, mpi::Tag::offer, std::span<const std::byte>{handle});
        mpi::receive_busy(world, 1, mpi::Tag::offer, std::span<std::byte>{handle});
        return;
    }
    mpi::receive_busy(world, 0, mpi::Tag::offer, std::span<std::byte>{handle});
    {
        const GpuMemory opened{1, handle, bytes.size()}, own{1, bytes.size()};
        CopyBatch batch;
        batch.add({5000}, opened.data(), {1}, DType::u8, own.data(), {1}, DType::u8);
        GpuCopier copier{1};
        copier.run(batch);
        const Fd file = make_memory_file("test", bytes.size());
        copier.download(own, file);
        CHECK(bytes_of(file, bytes.size()) == bytes);
    }
    mpi::send_busy(world, 0, mpi::Tag::offer, std::span<const std::byte>{handle});
}
