// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <span>
#include <vector>

namespace tpx::formats::deepspeed {

/// What each data-parallel rank of `content.layout` holds of `content.tensors` under ZeRO, as pieces: masters and
/// moments and, with zero=3, also weights. Uses only dp and zero of the layout. `roles` has the role of each tensor.
/// Under zero=1 and 2, state is flattened in two groups as in transformers' Trainer (tensors with at least two axes,
/// which have weight decay, then the others), each in the order of content.tensors; see lay_out_group(). Under zero=3,
/// every tensor is split separately; see part_of_parameter().
std::vector<Piece> partition_shares(const Content& content, std::span<const Role> roles);

}  // namespace tpx::formats::deepspeed
