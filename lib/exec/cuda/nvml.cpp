// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/cuda/nvml.hpp"

#include <dlfcn.h>

#include <memory>

namespace tpx::cuda {
namespace {

// NVML comes with the driver, and its header with neither: these are the calls that are needed, as the NVML API
// reference guide declares them.
using Device = struct nvmlDevice_st*;
constexpr int success = 0;
constexpr unsigned most_links = 18;  // NVML_NVLINK_MAX_LINKS
constexpr int nvlink_access = 2;     // NVML_P2P_CAPS_INDEX_NVLINK
constexpr int is_possible = 0;       // NVML_P2P_STATUS_OK

struct CloseLibrary {
    void operator()(void* library) const { dlclose(library); }
};

/// The library, initialized.
class Nvml {
public:
    Nvml() : library_{dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)} {
        const auto initialize = find<int()>("nvmlInit_v2");
        shut_down_ = find<int()>("nvmlShutdown");
        by_bus_ = find<int(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
        is_usable_ = initialize && shut_down_ && by_bus_ && initialize() == success;
    }
    ~Nvml() {
        if (is_usable_) shut_down_();
    }
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;

    bool is_usable() const { return is_usable_; }

    /// The function called `name`; null if the library has none.
    template <class Function>
    Function* find(const char* name) const {
        return library_ ? reinterpret_cast<Function*>(dlsym(library_.get(), name)) : nullptr;
    }

    /// The GPU at a PCI address; null: unknown. Precondition: is_usable().
    Device device_at(const std::string& bus) const {
        Device device = nullptr;
        return by_bus_(bus.c_str(), &device) == success ? device : nullptr;
    }

private:
    std::unique_ptr<void, CloseLibrary> library_;
    int (*shut_down_)() = nullptr;
    int (*by_bus_)(const char*, Device*) = nullptr;
    bool is_usable_ = false;
};

}  // namespace

std::vector<int> count_nvlinks(const std::vector<std::string>& buses) {
    std::vector<int> counts(buses.size());
    const Nvml nvml;
    const auto link_state = nvml.find<int(Device, unsigned, unsigned*)>("nvmlDeviceGetNvLinkState");
    if (!nvml.is_usable() || !link_state) return counts;
    for (std::size_t i = 0; i < buses.size(); ++i) {
        Device const device = nvml.device_at(buses[i]);
        for (unsigned link = 0; device != nullptr && link < most_links; ++link) {
            unsigned active = 0;
            counts[i] += link_state(device, link, &active) == success && active == 1;
        }
    }
    return counts;
}

std::vector<std::vector<bool>> find_nvlinks(const std::vector<std::string>& buses) {
    std::vector<std::vector<bool>> found(buses.size(), std::vector<bool>(buses.size()));
    const Nvml nvml;
    const auto access = nvml.find<int(Device, Device, int, int*)>("nvmlDeviceGetP2PStatus");
    if (!nvml.is_usable() || !access) return found;
    std::vector<Device> devices;
    for (const std::string& bus : buses) devices.push_back(nvml.device_at(bus));
    for (std::size_t a = 0; a < buses.size(); ++a)
        for (std::size_t b = 0; b < buses.size(); ++b) {
            if (a == b || devices[a] == nullptr || devices[b] == nullptr) continue;
            int status = -1;
            found[a][b] = access(devices[a], devices[b], nvlink_access, &status) == success && status == is_possible;
        }
    return found;
}

}  // namespace tpx::cuda
