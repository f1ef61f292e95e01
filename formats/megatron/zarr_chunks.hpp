// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>

namespace tpx::formats::zarr {

/// Reads the arrays and ShardedObjects in `directory` into `checkpoint`'s catalogue. Each folder with a `.zarray` is a
/// tensor, each of its chunk files a piece; each file `KEY/shard_OFFSETS_SHAPE.pt` is the object of that name.
///
/// A missing chunk file is a hole, even if the array has a fill_value: Megatron-core stored every chunk, so the values
/// of a missing one are lost. Adds a note for each array with a hole and a fill_value, and one that lists ignored
/// files. Throws Error "FILE: tensor 'NAME': ..." for arrays that Megatron-core does not write, for files of the wrong
/// size, and for links that lead out of `directory`.
void read_arrays(const std::filesystem::path& directory, Checkpoint& checkpoint);

}  // namespace tpx::formats::zarr
