// SPDX-License-Identifier: Apache-2.0
#include "lib/check/check_cells.hpp"

#include "lib/core/error.hpp"

namespace tpx {
namespace {

/// The bytes of cell `i`.
std::uint64_t bytes_of(const HeldTables& held, std::size_t i, const HostTables& hosts) {
    const auto& cells = held.cells;
    const std::uint32_t parcel = cells.parcel[i];
    const Tensor& tensor = held.tensors[cells.tensor[i]];
    const Box& box = cells.box[i];
    const Box all = whole(tensor.shape);
    if (box.size() != all.size() || checked_volume(tensor.shape) < 0 || empty(box) || !contains(all, box))
        throw failure("cells: cell {}, {}, is not within tensor '{}'", i, to_string(box), tensor.name);
    const std::string& role = hosts.roles.name[hosts.parcels.role[parcel]];
    const auto element = static_cast<std::uint32_t>(itemsize(tensor.dtype));
    if (held.roles[cells.tensor[i]] != role || element != hosts.parcels.element[parcel])
        throw failure("cells: tensor '{}' is not in parcel {}, of role '{}' and elements of {} bytes", tensor.name,
                      parcel, role, hosts.parcels.element[parcel]);
    return static_cast<std::uint64_t>(volume(box)) * element;
}

}  // namespace

void check_cells(const HeldTables& held, const HostTables& hosts) {
    const auto& cells = held.cells;
    std::size_t next = 0;
    for (std::size_t parcel = 0; parcel < hosts.parcels.bytes.size(); ++parcel) {
        std::uint64_t end = 0;
        for (; next < cells.parcel.size() && cells.parcel[next] == parcel; ++next) {
            if (cells.begin[next] != end)
                throw failure("cells: cell {} of parcel {} begins at byte {}, not at {}", next, parcel,
                              cells.begin[next], end);
            end += bytes_of(held, next, hosts);
        }
        if (end != hosts.parcels.bytes[parcel])
            throw failure("cells: the cells of parcel {} have {} bytes, but the parcel has {}", parcel, end,
                          hosts.parcels.bytes[parcel]);
    }
    if (next != cells.parcel.size()) throw failure("cells: cell {} does not follow the one before", next);
}

}  // namespace tpx
