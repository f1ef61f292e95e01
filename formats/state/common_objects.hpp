// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats::megatron {

/// Takes the configuration of a DCP checkpoint that was made of Megatron's and kept its names from the args in there: a
/// config.json beside it has other words. Does nothing for others.
void read_args(Checkpoint& checkpoint);

/// Gives a DCP checkpoint that was made of Megatron's the common state that this had, out of the objects that hold it,
/// which are taken from the catalogue: args, as a Namespace again, iteration, schedule, and groups of parameters that
/// still are Megatron's. Does nothing for others. What the state of one layout's ranks was is not restored.
void restore_common(Checkpoint& checkpoint);

}  // namespace tpx::formats::megatron
