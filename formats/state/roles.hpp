// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/layout/reading.hpp"

#include <set>
#include <span>
#include <string_view>

namespace tpx::formats {

/// Whether optimizers keep a master copy of weights of this type, in f32.
constexpr bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

/// The name of the parameter that optimizer state PARAMETER/STATE belongs to.
std::string_view parameter_of(std::string_view name);

/// The name of the parameter that tensor `t` of a checkpoint that tells roles is, or is state of.
std::string_view parameter_of(const Checkpoint& checkpoint, std::size_t t);

/// Reads the tensors of a checkpoint by the rules of `families`. Where the checkpoint tells the roles itself, state is
/// read as its parameter is, with its role.
Reading read_by_roles(const Checkpoint& checkpoint, const Families& families, const Config& config);

/// Reads the tensors by their names and whatever else tells what they are. Roles that nothing but names of state tells
/// are told from then on (tell_named_roles). So are those of a model that was saved as an attribute of another module,
/// as a LightningModule's is ("model.model.layers.0..."), or within wrappers ("_orig_mod."): where no rules explain all
/// tensors, names count without wrappers and what all weights' names begin with, if rules match every weight then.
Reading read_by_names(Checkpoint& checkpoint, const Families& families, const Config& config);

/// The names of parameters that have a tensor of `role`. Precondition: the checkpoint records roles.
std::set<std::string_view> parameters_with(const Checkpoint& checkpoint, Role role);

}  // namespace tpx::formats
