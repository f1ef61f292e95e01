// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/canonical.hpp"
#include "formats/files/digests_file.hpp"
#include "lib/core/digest.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/read_digests.hpp"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tpx::cli {

/// A checkpoint's canonical tensors with their digests.
struct CheckpointDigests {
    formats::CanonicalTensors canonical;
    std::vector<Digest> digests;                ///< one per tensor
    std::vector<formats::OpaqueTensor> opaque;  ///< tensors that are not canonical, because only their blocks are known
    std::vector<Digest> blocks;                 ///< digest of the blocks of each quantized tensor
    /// A digest of all tensors except extras and copies that equal their originals. Equal states have equal digests,
    /// whatever their layouts.
    std::string state;
};

/// A tensor as it is listed and recorded.
struct DigestedTensor {
    std::string name;
    std::string stored;  ///< the stored tensor that contains it
    std::string dtype;   ///< of a quantized tensor, the type of its blocks
    Shape shape;
    std::string role;
    Digest digest;
};

/// A line for each tensor that should be a copy of another one, but differs from it.
std::vector<std::string> copy_notes(const CheckpointDigests& digested);

/// All tensors of `digested`: the canonical ones, then the quantized ones.
std::vector<DigestedTensor> all_tensors(const CheckpointDigests& digested);

/// The blocks of the quantized tensors of `checkpoint` as tensors of bytes, in the same order.
Catalogue blocks_as_tensors(const formats::Checkpoint& checkpoint);

/// Reads all tensors of `source`, each byte once. If `wanted` is given, reads only tensors of roles for which it
/// returns true; it is called once for each tensor. Collective.
CheckpointDigests digest_all(const mpi::Comm& comm, formats::Source& source, const ExecOptions& options = {},
                             const std::function<bool(const std::string& role)>& wanted = {});

/// The digest of each file in `files`. `read` contains the bytes that were read so far; only the others are read now.
/// Collective.
std::vector<formats::RecordedDigests::FileDigest> digest_files(const Catalogue& files, ReadDigests& read,
                                                               const ExecOptions& options);

/// The members of a checkpoint's archives whose content does not have the CRC-32 recorded for it, one line each. Must
/// be called before digest_all(). Throws an mpi::AgreedError, before it reads any, if the memory limit of `options` is
/// too low to decompress one. Collective.
std::vector<std::string> damaged_archives(const mpi::Comm& comm, const formats::Source& source,
                                          const ExecOptions& options);

/// The files of `files` that cannot be opened, by their paths, with the cause. Collective.
std::map<std::string, std::string> unreadable_files(const mpi::Comm& comm, const Catalogue& files);

/// The differences between the digests `now` of a checkpoint's tensors and the recorded ones, one line each; empty if
/// there are none.
std::vector<std::string> compare_tensors(const CheckpointDigests& now, const formats::RecordedDigests& record);

/// The same for the files of a checkpoint.
std::vector<std::string> compare_files(std::span<const formats::RecordedDigests::FileDigest> now,
                                       const formats::RecordedDigests& record);

}  // namespace tpx::cli
