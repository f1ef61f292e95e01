// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"
#include "formats/source.hpp"

namespace tpx::formats {

/// Whether `source` records optimizer state like Adam's.
bool has_moments(const Source& source);

/// Whether names of weights are kept but optimizer state has another name in `target`: DeepSpeed's PARAMETER/exp_avg
/// becomes PyTorch's optimizer.state.PARAMETER.exp_avg in a DCP checkpoint, and vice versa. torch.save and HDF5 files
/// keep either form; numbered state is named by parameter in HDF5.
bool renames_optimizer_state(const Source& source, const Target& target, const Dialect* dialect);

/// The tensors of `source` with optimizer state renamed for a target for which renames_optimizer_state() is true. A DCP
/// checkpoint gets master weights as weights; a universal one gets weights as masters, too. Steps do not become
/// tensors; Content::adam has them. Throws Error (usage) for state that the target cannot store.
ExpressedState rename_optimizer_state(const Source& source, const Target& target);

/// `dialect` with the optimizer state names of a format: always for `by_folder`, for `by_torch` only if `dialect` has
/// none.
Dialect with_state_names(StateNames names, const Dialect& dialect);

}  // namespace tpx::formats
