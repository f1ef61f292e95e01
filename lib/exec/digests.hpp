// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/core/digest.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// The digest of each tensor of `side`, on every rank; each piece is read once, by one rank. Floating-point tensors are
/// cast to `cast` first, if it is given. Pieces with equal boxes must hold equal bytes; otherwise throws an
/// mpi::AgreedError (Exit::no) that names the tensor and both files. If the pieces of a tensor do not cover it, its
/// digest counts fewer bytes than the tensor has. Collective.
std::vector<Digest> digests(const mpi::Comm& comm, const Side& side, std::span<const SourceFile> files,
                            const ExecOptions& options, std::optional<DType> cast = {});

/// The same with one dtype for each tensor, to which floating-point tensors are cast first.
std::vector<Digest> digests_as(const mpi::Comm& comm, const Side& side, std::span<const SourceFile> files,
                               const ExecOptions& options, std::span<const DType> dtypes);

}  // namespace tpx
