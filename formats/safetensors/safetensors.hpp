// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <filesystem>

namespace tpx::formats {

/// Whether `directory` looks like a safetensors checkpoint: an index or *.safetensors in it or in its folder `sharded`.
bool holds_safetensors(const std::filesystem::path& directory);

/// Opens one *.safetensors file, one *.safetensors.index.json with its files, or a directory: an index, else
/// model.safetensors, else all *.safetensors (whole tensors, or the boxes that DCP_SHARDING_INFO tells), else those in
/// its folder `sharded`. Throws Error when a file is malformed or missing, when files and index disagree, or when a
/// tensor stands in several files and they do not say which part each has. Holes are left to lib/core/coverage.hpp.
Checkpoint open_safetensors(const std::filesystem::path& path);

/// One rank that holds each tensor whole: model.safetensors, or when the tensors are more than shard_size
/// model-0000i-of-0000N.safetensors and their index, byte for byte as the reference library and transformers write
/// them. Otherwise a rank's pieces go into shard-0000R-model-0000i-of-0000N.safetensors with DCP_SHARDING_INFO, as
/// PyTorch's HuggingFaceStorageWriter does; a second box of a tensor goes into a further file, and a box
/// without elements into none unless its tensor has none. The pieces of the draft
/// are those of `content` in the same order. Throws Error "tensor 'NAME': ..." for what safetensors cannot hold.
Draft draft_safetensors(const Content& content);

}  // namespace tpx::formats
