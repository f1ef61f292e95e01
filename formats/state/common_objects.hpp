// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats::megatron {

/// Sets the configuration of a DCP checkpoint that Megatron-FSDP wrote, or that was converted from Megatron's and still
/// has its names, from the args in the checkpoint: a config.json beside it uses other keys. Does nothing for other
/// checkpoints.
void read_args(Checkpoint& checkpoint);

/// Restores the common state of a DCP checkpoint that is Megatron-FSDP's or was converted from Megatron's, from the
/// objects that contain it, and removes these from the catalogue: args (again as a Namespace), iteration, schedule, and
/// param_groups if they are still Megatron's. Does not restore the state of single ranks. Does nothing for other
/// checkpoints.
void restore_common(Checkpoint& checkpoint);

}  // namespace tpx::formats::megatron
