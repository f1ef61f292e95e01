// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/driver.hpp"
#include "formats/source.hpp"

namespace tpx::formats {

/// Whether `source` itself tells of state that Adam's kinds of optimizers have.
bool has_moments(const Source& source);

/// Whether names are kept, but optimizer state of `source` is called otherwise in `target`: DeepSpeed's, which is
/// PARAMETER/exp_avg, becomes torch's optimizer.state.PARAMETER.exp_avg in a DCP checkpoint, and the other way round.
/// Files of torch.save and HDF5 keep either; of an optimizer that counts its parameters, HDF5 has them by name.
bool respells_states(const Source& source, const Target& target, const Dialect* dialect);

/// The tensors of `source` in a target that respells_states(). A DCP checkpoint has the master weights as weights; a
/// universal one has its weights as masters, too. Steps become no tensors of it: the content's adam tells them. Throws
/// Error (usage) for state that the target has no place for.
Expressed with_states_respelt(const Source& source, const Target& target);

/// `dialect` with the names that the target's format gives optimizer state, where it has none of its own.
Dialect with_state_names(StateNames names, const Dialect& dialect);

}  // namespace tpx::formats
