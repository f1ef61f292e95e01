// SPDX-License-Identifier: Apache-2.0
// A fake NVML that reports NVLink between the pairs of GPUs in the variable FAKE_NVLINKS, such as "0-1,2-3".
// With FAKE_FAULT=nvmlInit, it does not start.
#include "tests/gpu/shared.hpp"

#include <array>
#include <cstdio>

namespace {

constexpr int nvlink_access = 2;  // NVML_P2P_CAPS_INDEX_NVLINK
constexpr int not_supported = 5;  // NVML_P2P_STATUS_NOT_SUPPORTED
constexpr int invalid = 2;        // NVML_ERROR_INVALID_ARGUMENT

std::array<int, 16> devices{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

}  // namespace

extern "C" {

int nvmlInit_v2() { return is_faulty("nvmlInit") ? invalid : 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, int** device) {
    unsigned number = 0;
    if (std::sscanf(bus, "0000:%*[aA]%u", &number) != 1 || number >= devices.size()) return invalid;
    *device = &devices[number];
    return 0;
}
int nvmlDeviceGetP2PStatus(int* a, int* b, int index, int* status) {
    if (index != nvlink_access) return invalid;
    *status = has_pair("FAKE_NVLINKS", *a, *b) ? 0 : not_supported;
    return 0;
}
}
