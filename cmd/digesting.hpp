// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/conversion.hpp"
#include "formats/digests_file.hpp"
#include "lib/core/digest.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"

#include <string>
#include <vector>

namespace tpx::cli {

/// A checkpoint's canonical tensors with their digests.
struct Digested {
    formats::Canonical canonical;
    std::vector<Digest> digests;  ///< one a tensor
    std::string state;            ///< of all tensors that are no extras: equal for equal states in whatever layout
};

/// Reads all tensors of `source`, each byte once. Collective.
Digested digest_all(const mpi::Comm& comm, formats::Source& source, const ExecOptions& options = {});

/// The digest of every file of the checkpoint as bytes. Collective.
std::vector<formats::RecordedDigests::FileDigest> digest_files(const mpi::Comm& comm, const Catalogue& catalogue,
                                                               const ExecOptions& options = {});

/// What the CRC-32s of a checkpoint's archives say is damaged, a line each. To be called before digest_all(). Where
/// none of them holds, the writer was told not to compute them: then there is nothing to say. Collective.
std::vector<std::string> damaged_archives(const mpi::Comm& comm, const formats::Source& source);

/// What differs between a checkpoint and the digests recorded for it, a line each; empty when nothing does. Collective.
std::vector<std::string> compare_with_record(const mpi::Comm& comm, const formats::Source& source, const Digested& now,
                                             const formats::RecordedDigests& record, const ExecOptions& options = {});

}  // namespace tpx::cli
