// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/layout/reading.hpp"

#include <optional>
#include <span>
#include <string_view>

namespace tpx::formats {

/// Whether a format's files are DeepSpeed's, whose cuts follow its own groups of parameters.
constexpr bool is_deepspeed(Format format) { return format == Format::deepspeed || format == Format::universal; }

/// Whether tensors are Megatron's: cut equally, by layer, and named in its dialect.
constexpr bool is_megatron(Format format) { return format == Format::torch_dist || format == Format::megatron; }

/// The name of the parameter that optimizer state PARAMETER/STATE belongs to.
std::string_view parameter_of(std::string_view name);

/// The name of the parameter that tensor `t` of a checkpoint that tells roles is, or is state of.
std::string_view parameter_of(const Checkpoint& checkpoint, std::size_t t);

/// Reads the tensors of a checkpoint by the rules of `families`. Where the checkpoint tells the roles itself, state is
/// read as its parameter is, with its role.
Reading read_by_roles(const Checkpoint& checkpoint, std::span<const Family> families, const Config& config);

/// Whether a family's rules match every tensor.
bool explains(const Reading& reading);

/// The same of a model that was saved as an attribute of another module, as a LightningModule's is ("model.model.layers
/// .0..."), or within wrappers ("_orig_mod."): without what the names of all weights begin with, if a family's rules
/// match every weight then. The checkpoint tells roles and parameters by those names from then on, else it stays as it
/// is. Not of formats that name modules by themselves.
std::optional<Reading> read_below_attributes(Checkpoint& checkpoint, std::span<const Family> families,
                                             const Config& config);

}  // namespace tpx::formats
