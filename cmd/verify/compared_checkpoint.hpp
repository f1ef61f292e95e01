// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/checkpoint_digests.hpp"
#include "formats/state/adam.hpp"
#include "lib/exec/difference.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tpx::cli {

/// One of two checkpoints that are compared.
struct ComparedCheckpoint {
    formats::Source* source;
    CheckpointDigests digested;
    std::map<std::string, std::size_t> numbers;  ///< canonical tensors, by the names for comparison
    std::set<Role> roles;
    std::vector<std::string> damaged;
    std::optional<formats::Adam> adam;             ///< optimizer settings, on rank 0; unset if they are not compared
    std::map<std::string, std::uint64_t> skipped;  ///< number of tensors not read, by role
};

/// Reads all tensors of `source` except those of roles for which `skipped` returns true. Tensors are compared by their
/// canonical names or, if the sizes for splitting them are unknown or no rules describe the model, by role and
/// parameter. Collective.
ComparedCheckpoint read_compared_checkpoint(const mpi::Comm& comm, formats::Source& source,
                                            const std::function<bool(const std::string&)>& skipped,
                                            const ExecOptions& options);

/// One tensor of a checkpoint, as a side of a comparison.
struct OneTensor {
    std::vector<Tensor> tensors;
    std::vector<Piece> pieces;
    std::vector<SourceFile> files;

    StoredSide stored() const { return {{tensors, pieces}, files}; }
};

/// Canonical tensor number `tensor` of `member`.
OneTensor one_tensor(const ComparedCheckpoint& member, std::size_t tensor);

}  // namespace tpx::cli
