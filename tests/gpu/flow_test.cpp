// SPDX-License-Identifier: Apache-2.0
// How the measuring of GPUs calls CUDA and NCCL, with stand-ins for both.
#include "lib/exec/measure_gpu.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

using namespace tpx;

namespace {

std::optional<std::string> fault_of(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    return std::nullopt;
}

// Sets a variable for as long as it lives.
struct Variable {
    const char* name;
    Variable(const char* variable, const char* value) : name{variable} { setenv(name, value, 1); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
    ~Variable() { unsetenv(name); }
};

}  // namespace

TEST_CASE("GPUs are found, or the reason why there are none") {
    const CudaGpus found = find_cuda_gpus();
    REQUIRE(found.gpus.size() == 2);
    CHECK(found.gpus[1].name == "Fake GPU");
    CHECK(found.gpus[1].bus == "0000:a1:00.0");
    CHECK(found.gpus[1].nvlinks == 0);
    const Variable none{"FAKE_GPUS", "0"};
    CHECK(find_cuda_gpus().gpus.empty());
    CHECK(find_cuda_gpus().reason == "no CUDA-capable device is detected");
}

TEST_CASE("each GPU is measured, and each pair but with itself") {
    for (const int gpu : {0, 1}) {
        const GpuRates rates = measure_gpu(gpu, 0.01);
        CHECK(rates.to_device.median > 0);
        CHECK(rates.from_device.median > 0);
        CHECK(rates.copy.median > 0);
    }
    const auto peers = measure_peers(2, 0.01);
    CHECK(peers[0][0].median == 0);
    CHECK(peers[0][1].median > 0);
    CHECK(peers[1][0].median > 0);
    const Variable broken{"FAKE_FAULT", "cudaMemcpyAsync"};
    CHECK(fault_of([] { measure_gpu(0, 0.01); }) == "cudaMemcpyAsync: fake fault");
}

TEST_CASE("a rank writes to the memory of another one's GPU, and faults reach both") {
    const mpi::Comm world = mpi::Comm::world();
    if (world.rank() > 1) return;
    MeasuredValue rate;
    CHECK(fault_of([&] { rate = measure_ipc(world, 0, 1, world.rank(), 0.01); }) == std::nullopt);
    CHECK((rate.median > 0) == (world.rank() == 0));
    for (const char* call : {"cudaIpcGetMemHandle", "cudaIpcOpenMemHandle"}) {
        CAPTURE(call);
        const Variable broken{"FAKE_FAULT", call};
        const auto fault = fault_of([&] { measure_ipc(world, 0, 1, world.rank(), 0.01); });
        REQUIRE(fault);
        if (world.rank() == 0) CHECK(fault->find(call) != fault->npos);
    }
}

TEST_CASE("members send in pairs and reduce, others wait, and rank 0 has the result") {
    const mpi::Comm world = mpi::Comm::world();
    // Rank 0 is no member; places are not ranks.
    const NcclRates rates = measure_nccl(world, {1, 2}, {{0, 1}}, world.rank() % 2);
    if (world.rank() == 0) {
        REQUIRE(rates.pairs.size() == 1);
        CHECK(rates.pairs[0].median > 0);
        CHECK(rates.all_reduce.median > 0);
    }
    const NcclRates all = measure_nccl(world, {0, 1, 2}, {{0, 2}, {0, 1}}, 0);
    if (world.rank() == 0) CHECK(all.pairs[1].median > 0);
}

TEST_CASE("a GPU sends to itself by NCCL, without MPI, and each call that fails is named") {
    const auto measure = [] { return measure_nccl(mpi::Comm{}, {0}, {{0, 0}}, 1).pairs.at(0).median; };
    CHECK(measure() > 0);
    for (const std::string call :
         {"ncclGetUniqueId", "ncclCommInitRankConfig", "ncclGroupStart", "ncclSend", "ncclRecv", "ncclGroupEnd",
          "ncclAllReduce", "ncclCommGetAsyncError", "ncclCommFinalize"}) {
        const Variable broken{"FAKE_FAULT", call.c_str()};
        CHECK(fault_of(measure) == call + ": fake fault");
    }
    const Variable broken{"FAKE_FAULT", "ncclAsyncError"};
    CHECK(fault_of(measure) == "ncclCommInitRankConfig: a peer is gone");
    CHECK(measure_gpu(1, 0.01).copy.median > 0);
}

TEST_CASE("when NCCL fails on one rank, all say so and none waits for ever") {
    const mpi::Comm world = mpi::Comm::world();
    const Variable broken{"FAKE_FAULT", "ncclAllReduce"}, last{"FAKE_FAULT_PLACE", "2"};
    const auto fault = fault_of([&] { measure_nccl(world, {0, 1, 2}, {}, 0); });
    REQUIRE(fault);
    CHECK(fault->find("ncclAllReduce: ") != fault->npos);
}
