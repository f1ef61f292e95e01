// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/reshard_job.hpp"
#include "formats/convert/conversion.hpp"
#include "lib/core/digest.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tpx::cli {

/// What reshard --verify found to be as it should be.
struct Verified {
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;     ///< of tensors, read back
    std::uint64_t cast = 0;      ///< of these tensors, those whose dtype changed
    std::uint64_t metadata = 0;  ///< bytes of headers, pickles, configuration and copied files, read back
    std::uint64_t values = 0;    ///< beside tensors: of source and output, equal
    std::map<std::string, std::uint64_t> dropped;  ///< by role: values of the source that the output does not have
    bool from_disk = true;                         ///< false: the file system keeps files in memory
};

/// The digests that the tensors of the output must have. They are `moved`, except for tensors with a piece in the
/// source that no move reads, and with `all` for all tensors: these digests are computed from the source, cast as the
/// conversion does. Throws an mpi::AgreedError if pieces of the source with equal boxes differ. Collective.
std::vector<Digest> wanted_digests(const mpi::Comm& comm, const ReshardJob& job, std::vector<Digest> moved, bool all,
                                   const ExecOptions& exec);

/// Reads everything that was written back from disk: tensors must have the digests `wanted`; all else, the bytes of the
/// draft. `files` are those of the draft, where they are now. Throws an mpi::AgreedError that names what differs.
/// Collective.
Verified check_written(const mpi::Comm& comm, const formats::Conversion& conversion, std::span<const Digest> wanted,
                       std::span<const SourceFile> files, const ExecOptions& exec);

/// Compares the values beside the tensors of `source` and of `output`, which was made of it, and adds their numbers to
/// `verified`. Throws an mpi::AgreedError that names a value that both have and that differs. Collective; read by rank
/// 0.
void check_values(const mpi::Comm& comm, const formats::Checkpoint& source, const formats::Checkpoint& output,
                  Verified& verified);

/// "verified: 39 tensors, 173 kB read back from disk, 12 cast; 1.2 kB of metadata; 420 values (not in the output: 8
/// rng)".
std::string to_text(const Verified& verified);
nlohmann::ordered_json to_json(const Verified& verified);

}  // namespace tpx::cli
