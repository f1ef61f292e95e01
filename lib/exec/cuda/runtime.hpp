// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/measured_value.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace tpx::cuda {

/// Throws Error "CALL: reason" unless `code` is cudaSuccess.
void check(cudaError_t code, const char* call);

struct FreeDevice {
    void operator()(void* memory) const { cudaFree(memory); }
};
struct FreePinned {
    void operator()(void* memory) const { cudaFreeHost(memory); }
};
struct DestroyStream {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
struct DestroyEvent {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using DeviceMemory = std::unique_ptr<void, FreeDevice>;
using PinnedMemory = std::unique_ptr<void, FreePinned>;
using Stream = std::unique_ptr<CUstream_st, DestroyStream>;
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

/// Memory of the current GPU, all bytes set; memory of the host that GPUs reach directly; a stream and an event of the
/// current GPU.
DeviceMemory allocate_device(std::size_t size);
PinnedMemory allocate_pinned(std::size_t size);
Stream make_stream();
Event make_event();

/// Bytes per second of `work`, which puts a transfer of `bytes` on `stream`: at least five times, for about `seconds`,
/// timed by events; the first, which warms up, is left out.
MeasuredValue rate_of(const Stream& stream, std::size_t bytes, double seconds, const std::function<void()>& work);

}  // namespace tpx::cuda
