// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"
#include "lib/change/moves.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>

namespace tpx::cli {

/// The amount of metadata of checkpoints, and the memory that it takes.
struct MetadataSize {
    std::uint64_t tensors = 0;  ///< canonical tensors
    std::uint64_t pieces = 0;   ///< of these tensors
    std::uint64_t bytes = 0;    ///< of memory needed to read them, in addition to catalogues and buffers

    MetadataSize& operator+=(const MetadataSize& other);
};

/// The metadata of `source`, counted exactly; each canonical tensor takes `more` bytes in addition. Takes as long as
/// canonical(), but almost no memory.
MetadataSize metadata_of(const formats::Source& source, std::uint64_t more = 0);

/// The metadata that execute() will need in addition to `moves` and the two sides, which are in memory already.
MetadataSize metadata_of(const formats::Conversion& conversion, const Moves& moves);

/// The limits of a process that may use `memory` bytes, has opened its checkpoints, and will need `metadata` to read
/// them. Buffers get what remains, but at least 16 MiB. Throws an mpi::AgreedError that names a sufficient limit if the
/// metadata, including those already in memory, leave less. Collective; the same on all ranks.
ExecOptions limits_within(const mpi::Comm& comm, std::uint64_t memory, const MetadataSize& metadata);

}  // namespace tpx::cli
