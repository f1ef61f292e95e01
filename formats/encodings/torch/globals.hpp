// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"

#include <string_view>

namespace tpx::torch {

/// The Python 3 name of `global`, which may have its Python 2 name.
Global python3_name(Global global);

/// The name that pickles of protocol 2 use for `module`, a Python 3 module.
std::string_view python2_module(std::string_view module);

/// Throws Error naming the global if no checkpoint has a reason to refer to it: modules that access the system, and
/// builtins that are not types.
void check_harmless(Global global);

/// Throws Error unless `args` are an enum class and a member's name: the only use of getattr in checkpoints.
void check_enum_member(Value args);

}  // namespace tpx::torch
