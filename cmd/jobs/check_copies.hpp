// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"

namespace tpx::cli {

/// Checks that the copies that `conversion` drops have the same values as the tensors that it keeps instead. Throws an
/// mpi::AgreedError "tensor 'NAME': ..." that describes the first difference. Collective.
void check_copies(const mpi::Comm& comm, const formats::Conversion& conversion, const Catalogue& source,
                  const ExecOptions& exec);

}  // namespace tpx::cli
