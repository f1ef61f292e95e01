// SPDX-License-Identifier: Apache-2.0
// Stands in for cuda/ in builds without CUDA.
#include "lib/exec/device/nccl_rounds.hpp"
#include "lib/exec/gpu_memory.hpp"
#include "lib/exec/measure_gpu.hpp"

namespace tpx {
namespace {

[[noreturn]] void refuse() { throw failure("this tpx was built without CUDA"); }

}  // namespace

CudaGpus find_cuda_gpus() { return {.gpus = {}, .reason = "this tpx was built without CUDA"}; }

GpuRates measure_gpu(int, double) { refuse(); }

std::vector<std::vector<MeasuredValue>> measure_peers(int, double) { refuse(); }

MeasuredValue measure_ipc(const mpi::Comm&, int, int, int, double) { refuse(); }

NcclRates measure_nccl(const mpi::Comm&, const std::vector<int>&, const std::vector<std::pair<int, int>>&, int) {
    refuse();
}

struct GpuCopier::Buffers {};

std::vector<GpuInfo> list_gpus() { refuse(); }

GpuLinks list_gpu_links() { refuse(); }

int gpu_with_address(const std::string&) { refuse(); }

void release_gpu(int) {}

GpuMemory::GpuMemory(int, std::uint64_t) { refuse(); }
GpuMemory::GpuMemory(int, const GpuHandle&, std::uint64_t) { refuse(); }
GpuMemory::~GpuMemory() = default;
GpuHandle GpuMemory::handle() const { refuse(); }
void GpuMemory::clear() { refuse(); }

PinnedBuffer::PinnedBuffer(int, std::uint64_t) : gpu_{0} { refuse(); }
PinnedBuffer::~PinnedBuffer() = default;

std::string nccl_problem() { return "this tpx was built without CUDA"; }
std::unique_ptr<RoundTransport> make_nccl_rounds(const NcclSettings&, std::span<const Round>, RoundTransport&) {
    refuse();
}

GpuCopier::GpuCopier(int) { refuse(); }
GpuCopier::~GpuCopier() = default;
void GpuCopier::upload(const Fd&, std::uint64_t, std::uint64_t, const GpuMemory&) { refuse(); }
void GpuCopier::download(const GpuMemory&, std::uint64_t, std::uint64_t, const Fd&) { refuse(); }
void GpuCopier::run(const CopyBatch&) { refuse(); }
std::vector<std::uint32_t> GpuCopier::crcs(std::span<const Bytes>) { refuse(); }

}  // namespace tpx
