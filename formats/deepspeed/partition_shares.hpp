// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <span>
#include <vector>

namespace tpx::formats::deepspeed {

/// What each data-parallel rank of `content.layout` holds of `content.tensors` under ZeRO, as pieces: of masters and
/// moments, and with zero=3 of weights too. Only the layout's dp and zero are looked at. `roles`: of each tensor. Under
/// zero=1 and 2 the state is laid flat in two groups, as transformers' Trainer makes them (tensors of two axes and
/// more, which decay, then those of one), each in the order of content.tensors; see lay_group(). Under zero=3 every
/// tensor is split on its own, see part_of_parameter().
std::vector<Piece> partition_shares(const Content& content, std::span<const Role> roles);

}  // namespace tpx::formats::deepspeed
