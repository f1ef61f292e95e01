// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"

namespace tpx::cli {

/// Reads the copies that `conversion` drops and the tensors that it keeps in their place: their values must be equal.
/// Throws an mpi::AgreedError "tensor 'NAME': ..." with the first element that differs. Collective.
void check_copies(const mpi::Comm& comm, const formats::Conversion& conversion, const Catalogue& source,
                  const ExecOptions& exec);

}  // namespace tpx::cli
