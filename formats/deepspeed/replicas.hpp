// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/layout.hpp"
#include "lib/state/role.hpp"

#include <span>
#include <vector>

namespace tpx::formats::deepspeed {

/// `pieces` of a DeepSpeed checkpoint of `layout`, and a copy of each for every other rank that holds the same in
/// memory: files have weights and steps of one data rank only, and what tensor ranks replicate of one of these. Master
/// weights and moments are on the ranks whose partitions they are in. `roles`: of each tensor.
std::vector<Piece> with_replicas(std::span<const Tensor> tensors, std::span<const Piece> pieces,
                                 std::span<const Role> roles, const Layout& layout);

}  // namespace tpx::formats::deepspeed
