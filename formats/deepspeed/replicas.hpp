// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/layout.hpp"
#include "lib/state/role.hpp"

#include <span>
#include <vector>

namespace tpx::formats::deepspeed {

/// `pieces` of a DeepSpeed checkpoint of `layout`, and a copy of each for every other rank that holds the same data in
/// memory: files store weights and steps for one data rank only, and replicas of tensor ranks only once. Master weights
/// and moments are on the ranks with their partitions. `roles` has the role of each tensor.
std::vector<Piece> with_replicas(std::span<const Tensor> tensors, std::span<const Piece> pieces,
                                 std::span<const Role> roles, const Layout& layout);

}  // namespace tpx::formats::deepspeed
