// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"

namespace tpx::formats::megatron {

/// Adds to Megatron's args what `hybrid_layer_pattern` (formerly `hybrid_override_pattern`), such as "M-M*E", records
/// of each layer of a Mamba hybrid, as lists of 0 and 1 (mamba_layers, attention_layers, mlp_layers; other layers have
/// experts), and the family. Does nothing if the args have these or no pattern, if it has other kinds of layers, or if
/// its length differs from num_layers.
void add_layer_kinds(Config& args);

/// Removes from `args` what add_layer_kinds() has added to `stored`, the args of a checkpoint, so that they are written
/// as Megatron has them.
void remove_layer_kinds(Config& args, const Config& stored);

}  // namespace tpx::formats::megatron
