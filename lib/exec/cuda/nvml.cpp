// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/cuda/nvml.hpp"

#include <dlfcn.h>

#include <memory>

namespace tpx::cuda {
namespace {

// NVML comes with the driver, and its header with neither: these are the four calls that are needed, as the NVML API
// reference guide declares them.
using Device = struct nvmlDevice_st*;
constexpr int success = 0;
constexpr unsigned most_links = 18;  // NVML_NVLINK_MAX_LINKS

struct CloseLibrary {
    void operator()(void* library) const { dlclose(library); }
};

template <class Function>
Function* find(void* library, const char* name) {
    return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

std::vector<int> count_nvlinks(const std::vector<std::string>& buses) {
    std::vector<int> counts(buses.size());
    const std::unique_ptr<void, CloseLibrary> library{dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!library) return counts;
    const auto initialize = find<int()>(library.get(), "nvmlInit_v2");
    const auto shut_down = find<int()>(library.get(), "nvmlShutdown");
    const auto by_bus = find<int(const char*, Device*)>(library.get(), "nvmlDeviceGetHandleByPciBusId_v2");
    const auto link_state = find<int(Device, unsigned, unsigned*)>(library.get(), "nvmlDeviceGetNvLinkState");
    if (!initialize || !shut_down || !by_bus || !link_state || initialize() != success) return counts;
    for (std::size_t i = 0; i < buses.size(); ++i) {
        Device device = nullptr;
        if (by_bus(buses[i].c_str(), &device) != success) continue;
        for (unsigned link = 0; link < most_links; ++link) {
            unsigned active = 0;
            counts[i] += link_state(device, link, &active) == success && active == 1;
        }
    }
    shut_down();
    return counts;
}

}  // namespace tpx::cuda
