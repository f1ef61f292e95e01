// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/topology.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace tpx {
namespace {

struct DestroyTopology {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
    void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

Topology load_topology() {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0) return {};
    Topology topology{raw};
    hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    return hwloc_topology_load(raw) == 0 ? std::move(topology) : Topology{};
}

// The only socket on which this process may run; -1 if there are several or it is unknown.
int find_own_socket(hwloc_topology_t topology) {
    const Bitmap mine{hwloc_bitmap_alloc()};
    if (hwloc_get_cpubind(topology, mine.get(), HWLOC_CPUBIND_PROCESS) != 0) return -1;
    int socket = -1;
    hwloc_obj_t object = nullptr;
    while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object)) != nullptr) {
        if (!hwloc_bitmap_intersects(object->cpuset, mine.get())) continue;
        if (socket >= 0) return -1;
        socket = static_cast<int>(object->logical_index);
    }
    return socket;
}

std::vector<PciGpu> find_pci_gpus(hwloc_topology_t topology) {
    constexpr unsigned display = 0x03, nvidia = 0x10de, amd = 0x1002;  // PCI class and vendor IDs
    std::vector<PciGpu> gpus;
    hwloc_obj_t device = nullptr;
    while ((device = hwloc_get_next_pcidev(topology, device)) != nullptr) {
        const auto& pci = device->attr->pcidev;
        if (pci.class_id >> 8 != display || (pci.vendor_id != nvidia && pci.vendor_id != amd)) continue;
        const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, device);
        const bool one_node = near != nullptr && near->nodeset != nullptr && hwloc_bitmap_weight(near->nodeset) == 1;
        gpus.push_back({fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func),
                        one_node ? hwloc_bitmap_first(near->nodeset) : -1});
    }
    return gpus;
}

}  // namespace

MachineTopology find_topology() {
    const Topology topology = load_topology();
    if (!topology) return {};
    const auto count = [&](hwloc_obj_type_t type) {
        return std::max(0, hwloc_get_nbobjs_by_type(topology.get(), type));
    };
    return {.sockets = count(HWLOC_OBJ_PACKAGE),
            .numa_nodes = count(HWLOC_OBJ_NUMANODE),
            .cores = count(HWLOC_OBJ_CORE),
            .threads = count(HWLOC_OBJ_PU),
            .own_socket = find_own_socket(topology.get()),
            .gpus = find_pci_gpus(topology.get())};
}

std::string slurm_switch(const char* address, const char* pattern) {
    if (address == nullptr || pattern == nullptr || !std::string_view{pattern}.ends_with("switch.node")) return {};
    // A host name may contain dots, so the pattern determines how many leading parts of the address are switches.
    const auto switches = std::ranges::count(std::string_view{pattern}, '.');
    std::string_view rest = address, name;
    for (auto i = switches; i > 0; --i) {
        const std::size_t dot = rest.find('.');
        if (dot == rest.npos) return {};
        name = rest.substr(0, dot);
        rest.remove_prefix(dot + 1);
    }
    return std::string{name};
}

}  // namespace tpx
