// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/core/catalogue.hpp"

#include <filesystem>

namespace tpx::formats {

/// Opens a distributed checkpoint of Megatron-core (`--ckpt-format torch_dist`): an `iter_NNNNNNN` or `release`
/// directory, or the root above it with latest_checkpointed_iteration.txt. Tensors and their errors are those of
/// open_dcp(); ShardedObjects (keys "NAME/shard_OFFSETS_SHAPE") become objects; the scalars of `args` become the
/// config. The catalogue's directory is the inner one. Throws Error for other backends, and for a directory without
/// metadata.json, which Megatron writes last.
Checkpoint open_torch_dist(const std::filesystem::path& directory_or_root,
                           MissingFiles missing = MissingFiles::refused);

/// A root directory: the tracker file and iter_NNNNNNN with what Megatron-core 0.16 reads. See add_common_files() for
/// the common state.
///
/// ShardedObjects of a torch_dist source are copied unchanged: their keys name a layer (`..._extra_state/shard_3_32`)
/// and fit any layout. RNG states, whose keys name a rank (`rng_state/shard_0.1_1.2` is rank 1 of pp 1, tp 2), are
/// stored under the keys of the new layout; see new_objects().
Draft draft_torch_dist(const Content& content);

}  // namespace tpx::formats
