// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/config.hpp"
#include "lib/layout/families.hpp"

#include <span>
#include <vector>

namespace tpx {

/// Whether `tensors` form a LoRA adapter whose names can be converted: they have the names of Megatron Bridge, or those
/// of PEFT and `config` describes the base model. False if the base is part of another model, such as the text model of
/// a vision-language model.
bool are_adapter_tensors(std::span<const Tensor> tensors, const Config& config);

/// The factor for the rank of an adapter, whose size differs between weights. Rules cannot contain this character.
inline constexpr char adapter_rank = '\x7f';

/// Whether `family` is one of adapter_families().
inline bool is_adapter_family(const Family& family) { return family.dims.contains(adapter_rank); }

/// The families of LoRA adapters for models of `families`, in the same order. For each weight W of a linear layer,
/// except those of experts, an adapter has W.a of shape [rank, in] and W.b of shape [out, rank], under the names of
/// PEFT (dialect "hf") and of Megatron Bridge ("mcore"). A fused layer of Megatron has either one adapter per weight
/// (CanonicalLoRA) or a single adapter whose A all its weights share (LoRA); the latter is read but never written.
Families adapter_families(const Families& families);

}  // namespace tpx
