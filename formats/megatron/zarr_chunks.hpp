// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>

namespace tpx::formats {

/// Reads the arrays and ShardedObjects of Megatron-core's former zarr backend into `checkpoint`'s catalogue, as
/// open_chunks() does for torch_dist. Each folder of `directory` with a `.zarray` is a tensor, each of its chunk files
/// a piece; each file `KEY/shard_OFFSETS_SHAPE.pt` is the object of this name.
///
/// A missing chunk file is a hole, even if the array has a fill_value: Megatron-core stored every chunk, so the values
/// of a missing one are lost. Adds a note for each such array, and one that lists ignored files.
/// Throws Error "FILE: tensor 'NAME': ..." for arrays that Megatron-core does not write, for files of the wrong size,
/// and for links that lead out of `directory`.
void open_zarr_chunks(const std::filesystem::path& directory, Checkpoint& checkpoint, MissingFiles);

}  // namespace tpx::formats
