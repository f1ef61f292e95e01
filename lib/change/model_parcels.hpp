// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/parcel.hpp"
#include "lib/core/box.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/model_state.hpp"

#include <functional>
#include <vector>

namespace tpx {

/// A part of the tensors of one class that one set of ranks holds and another needs: `box` of each of `layers` and each
/// of `experts`.
struct Cell {
    std::uint32_t tensor_class = 0;
    std::vector<int> layers;  ///< empty if the class has none
    Interval experts;         ///< empty if the class has none
    Box box;
    std::uint32_t role = 0;
    std::uint32_t parcel = 0;
    std::uint64_t begin = 0;  ///< position of its bytes in the parcel
    std::uint64_t bytes = 0;  ///< of all layers and experts together
};

/// The change of `model` from one layout to another. Layouts are products of cuts of single axes, so the work grows
/// with the number of cuts, not with the cuts times layers, experts or ranks. What a rank holds:
///   Dense tensors are split along tp_axis over tp, experts over ep and their tp_axis over etp; layers are split across
///   stages as described in tpx-layout(5). fsdp (and zero=3) splits the result again, zero=1 and 2 only optimizer
///   state: along axis 0 (fsdp_dim) of what the rank would hold, like torch.chunk, over dp x cp ranks (experts: over
///   the ranks that hold the same expert part). Everything else is replicated.
/// Throws Error (usage) if a layout is impossible; the message has the tensor, the numbers and degrees that fit.
Parcels model_parcels(const ModelState& model, const Layout& from, const Layout& to);

/// Calls `visit` for the cells of all parcels, in a fixed order; within a parcel by ascending `begin`.
void for_each_cell(const ModelState& model, const Layout& from, const Layout& to,
                   const std::function<void(const Cell&)>& visit);

/// The bytes that each rank of `layout` holds, all roles.
std::vector<std::uint64_t> held_bytes(const ModelState& model, const Layout& layout);

}  // namespace tpx
