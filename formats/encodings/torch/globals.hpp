// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"

#include <string_view>

namespace tpx::torch {

/// The Python 3 name of a global that a pickle may spell as Python 2 did.
Global python3_name(Global global);

/// The module that pickles of protocol 2 name for `module`, which is Python 3's.
std::string_view python2_module(std::string_view module);

/// Throws Error naming the global when no checkpoint has reason to name it: modules that reach the system, builtins
/// that are no types.
void check_harmless(Global global);

/// Throws Error unless `args` are an enum class and a member's name: the one use of getattr in checkpoints.
void check_enum_member(Value args);

}  // namespace tpx::torch
