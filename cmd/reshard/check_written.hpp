// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/jobs/reshard_job.hpp"
#include "formats/convert/conversion.hpp"
#include "lib/core/digest.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tpx::cli {

/// What reshard --verify checked and found correct.
struct VerifyResult {
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;     ///< of tensors, read back
    std::uint64_t cast = 0;      ///< of these tensors, those whose dtype changed
    std::uint64_t metadata = 0;  ///< bytes of headers, pickles, configuration and copied files, read back
    std::uint64_t values = 0;    ///< non-tensor values that are equal in source and output
    std::map<std::string, std::uint64_t> dropped;  ///< number of source values that the output lacks, by role
    bool from_disk = true;                         ///< false: the file system keeps files in memory
};

/// The digests that the tensors of the output must have: `moved`, except for tensors with a source piece that no move
/// reads and, with `all`, for all tensors. These are digested again from the source, cast as the conversion does.
/// Throws an mpi::AgreedError if pieces of the source with equal boxes differ. Collective.
std::vector<Digest> expected_digests(const mpi::Comm& comm, const ReshardJob& job, std::vector<Digest> moved, bool all,
                                     const ExecOptions& exec);

/// Reads back everything that was written. Tensors must have the digests `wanted`; all other bytes must be those of the
/// draft. `files` are the current paths of the draft's files. Throws an mpi::AgreedError that names what differs.
/// Collective.
VerifyResult check_written(const mpi::Comm& comm, const formats::Conversion& conversion, std::span<const Digest> wanted,
                           std::span<const SourceFile> files, const ExecOptions& exec);

/// Compares the non-tensor values of `source` and of `output`, which was converted from it, and sets their counts in
/// `verified`. Throws an mpi::AgreedError that names the first value that differs. Collective; only rank 0 reads.
void check_values(const mpi::Comm& comm, const formats::Checkpoint& source, const formats::Checkpoint& output,
                  VerifyResult& verified);

/// "verified: 39 tensors, 173 kB read back from disk, 12 cast; 1.2 kB of metadata; 420 values (not in the output: 8
/// rng)".
std::string to_text(const VerifyResult& verified);
nlohmann::ordered_json to_json(const VerifyResult& verified);

}  // namespace tpx::cli
