// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/layout/reading.hpp"

#include <set>
#include <span>
#include <string_view>

namespace tpx::formats {

/// Whether optimizers keep an f32 master copy of weights of this dtype.
constexpr bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

/// The name of the parameter that optimizer state PARAMETER/STATE belongs to.
std::string_view parameter_of(std::string_view name);

/// The name of the parameter that tensor `t` is, or whose state it is. Precondition: the checkpoint records roles.
std::string_view parameter_of(const Checkpoint& checkpoint, std::size_t t);

/// Reads the tensors of a checkpoint by the rules of `families`. If the checkpoint records roles, state is read like
/// its parameter, but with its own role.
Reading read_by_roles(const Checkpoint& checkpoint, const Families& families, const Config& config);

/// Reads the tensors by their names and recorded roles. If necessary, records roles that only the names of state reveal
/// (assign_named_roles()). If rules still do not explain all tensors, tries names without wrappers ("_orig_mod.") and
/// without the attributes with which all weights' names begin, as in a LightningModule ("model.model.layers.0..."), and
/// records these names if rules then match every weight.
Reading read_by_names(Checkpoint& checkpoint, const Families& families, const Config& config);

/// The names of parameters that have a tensor of `role`. Precondition: the checkpoint records roles.
std::set<std::string_view> parameters_with(const Checkpoint& checkpoint, Role role);

}  // namespace tpx::formats
