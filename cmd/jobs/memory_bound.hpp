// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"
#include "lib/change/moves.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"

#include <cstdint>

namespace tpx::cli {

/// How much there is to say about the tensors of checkpoints, whatever their data.
struct MetadataSize {
    std::uint64_t tensors = 0;  ///< canonical ones
    std::uint64_t pieces = 0;   ///< of them
    std::uint64_t bytes = 0;    ///< of memory that reading them takes beside the catalogues and the buffers

    MetadataSize& operator+=(const MetadataSize& other);
};

/// The metadata of `source`, counted exactly, of which each canonical tensor takes `more` bytes in addition. Takes as
/// long as canonical(), and almost no memory.
MetadataSize metadata_of(const formats::Source& source, std::uint64_t more = 0);

/// What execute() will take beside `moves` and the two sides, once they are made.
MetadataSize metadata_of(const formats::Conversion& conversion, const Moves& moves);

/// The limits of a process that may take `memory` bytes, when it has opened its checkpoints and will read them by
/// `metadata`; buffers get what remains, and 16 MiB at least. Throws an mpi::AgreedError that names a sufficient
/// limit if the metadata, including those already in memory, leave less. Collective; the same on all ranks.
ExecOptions limits_within(const mpi::Comm& comm, std::uint64_t memory, const MetadataSize& metadata);

}  // namespace tpx::cli
