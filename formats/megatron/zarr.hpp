// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tpx::formats {

/// Opens a distributed checkpoint of Megatron-core's former zarr backend (`--ckpt-format zarr`): an `iter_NNNNNNN` or
/// `release` directory, or the root above it. Tensors and objects are those of zarr::read_arrays(), all else is as in
/// open_torch_dist().
Checkpoint open_zarr(const std::filesystem::path& directory_or_root);

/// A root directory: the tracker file and iter_NNNNNNN with what Megatron-core 0.15 reads, the last release with this
/// backend. Each tensor is an array whose chunks are the boxes of the ranks, as Megatron-core chooses them; each chunk
/// is a file, which one rank writes. ShardedObjects have a file each. Adds a note for objects that have no valid file
/// name. Throws Error for dtypes that the backend does not store.
Draft draft_zarr(const Content& content, std::vector<std::string>& notes);

}  // namespace tpx::formats
